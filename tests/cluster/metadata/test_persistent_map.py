"""Versions of a map are values: a change of one does not affect the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.persistent_map import PersistentMap

KEYS = st.integers(0, 1500)  # integers are their own hashes: three keys share a bucket


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("having"), st.dictionaries(KEYS, st.integers(), max_size=5)),
            st.tuples(st.just("without"), st.lists(KEYS, max_size=5)),
        )
    )
)
def test_each_version_equals_a_dict_with_the_same_changes(steps: list[tuple[str, object]]) -> None:
    made = PersistentMap[int, int]()
    plain: dict[int, int] = {}
    versions = [(made, dict(plain))]
    for kind, change in steps:
        if isinstance(change, dict):
            made = made.having(change.items())
            plain |= change
        else:
            assert isinstance(change, list), kind
            made = made.without(change)
            for key in change:
                plain.pop(key, None)
        versions.append((made, dict(plain)))
    for version, expected in versions:
        assert version == expected
        assert len(version) == len(expected)
        assert sorted(version.items()) == sorted(expected.items())
        assert sorted(version) == sorted(expected)
        assert sorted(version.values()) == sorted(expected.values())
        assert all(key in version and version[key] == expected[key] for key in expected)


def test_missing_key_is_not_found_and_no_key_can_be_assigned() -> None:
    made = PersistentMap([("a", 1)])
    assert "b" not in made
    assert made.get("b") is None
    assert made.get("b", 7) == 7
    with pytest.raises(KeyError):
        made["b"]
    with pytest.raises(TypeError):
        made["a"] = 2  # type: ignore[index] # that it cannot is what is tested


def test_change_without_effect_returns_the_same_map() -> None:
    made = PersistentMap([("a", 1)])
    assert made.without(["b"]) is made
    assert made.having([]) is made


def test_change_copies_one_bucket() -> None:
    """Of 10,000 entries, all dicts but one are those of the former version."""
    before = PersistentMap((number, number) for number in range(10_000))
    for after in (before.having([(77, 0)]), before.without([77])):
        shared = sum(a is b for a, b in zip(before._buckets, after._buckets, strict=True))
        assert shared == len(before._buckets) - 1


def test_key_named_twice_is_removed_once() -> None:
    assert sorted(PersistentMap([("a", 1), ("b", 2)]).without(["a", "a"]).items()) == [("b", 2)]
