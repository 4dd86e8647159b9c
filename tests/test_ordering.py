"""The order of the test files is the seed's, and the last of them are short."""

from __future__ import annotations

from tests.ordering import drawn

FILES = {f"tests/test_{number}.py": number % 4 == 0 for number in range(60)}


def test_a_seed_gives_its_order_again_whatever_the_files_came_in() -> None:
    backwards = dict(reversed(FILES.items()))
    assert drawn(FILES, "1") == drawn(backwards, "1")
    assert drawn(FILES, "1") != drawn(FILES, "2")
    assert sorted(drawn(FILES, "1")) == sorted(FILES)


def test_the_last_third_is_short_and_the_rest_is_mixed() -> None:
    order = [FILES[name] for name in drawn(FILES, "1")]
    assert not any(order[40:])
    assert sum(order) == 15
    assert True in order[:10]
    assert False in order[:10]


def test_long_files_alone_are_all_there() -> None:
    only_long = dict.fromkeys(FILES, True)
    assert sorted(drawn(only_long, "3")) == sorted(FILES)
    assert drawn({}, "3") == []
