"""What a target changes for a member, before any kind of groups adds its rules."""

from __future__ import annotations

import pytest

from kwire.groups.assigned.reconciliation import difference

Since = dict[str, dict[int, int]]
"""Topic -> partition -> epoch of its assignment."""

TARGET_EPOCH = 7


@pytest.mark.parametrize(
    ("current", "target", "unreleased", "kept", "revoked", "added", "is_waiting"),
    [
        ({}, {}, [], {}, {}, {}, False),
        ({"t": {0: 3}}, {"t": [0]}, [], {"t": {0: 3}}, {}, {}, False),
        ({"t": {0: 3, 1: 4}}, {"t": [1]}, [], {"t": {1: 4}}, {"t": {0: 3}}, {}, False),
        ({"t": {0: 3}}, {"t": []}, [], {}, {"t": {0: 3}}, {}, False),
        ({"t": {0: 3}}, {"u": [0]}, [], {}, {"t": {0: 3}}, {"u": {0: 7}}, False),
        ({"t": {0: 3}}, {"t": [2, 1, 0]}, [("t", 2)], {"t": {0: 3}}, {}, {"t": {1: 7}}, True),
        ({}, {"t": [0], "u": [1]}, [("t", 0), ("u", 1)], {}, {}, {}, True),
        ({"t": {0: 3}}, {"t": [0]}, [("t", 0)], {"t": {0: 3}}, {}, {}, False),  # its own
    ],
)
def test_difference_separates_what_a_member_keeps_revokes_and_gets(
    current: Since,
    target: dict[str, list[int]],
    unreleased: list[tuple[str, int]],
    kept: Since,
    revoked: Since,
    added: Since,
    is_waiting: bool,
) -> None:
    result = difference(current, target, TARGET_EPOCH, unreleased.__contains__)
    assert (result.kept, result.revoked, result.added) == (kept, revoked, added)
    assert result.is_waiting is is_waiting


def test_given_partitions_are_the_kept_and_the_added_ones() -> None:
    result = difference({"t": {0: 3}}, {"t": [1, 0], "u": [0]}, TARGET_EPOCH, lambda _: False)
    assert result.given == {"t": {0: 3, 1: 7}, "u": {0: 7}}
    assert result.kept == {"t": {0: 3}}
