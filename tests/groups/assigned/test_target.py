"""Edge cases of kwire.groups.assigned.target."""

from __future__ import annotations

import pytest

from kwire.groups.assigned.target import is_same, may_be_computed


@pytest.mark.parametrize(
    ("last_ms", "interval_ms", "now_ms", "may"),
    [
        (0, 1000, 5, True),  # never computed
        (1, 1000, 5, False),
        (10, 1, 10, False),
        (10, 1, 11, True),
        (10, 2, 11, False),
        (10, 0, 10, True),
        (10, 0, 5, True),  # the clock was set back
        (10, 1, 5, False),
    ],
)
def test_assignment_interval_separates_computations(
    last_ms: int, interval_ms: int, now_ms: int, may: bool
) -> None:
    assert may_be_computed(last_ms, interval_ms, now_ms) is may


T, U = b"t" * 16, b"u" * 16


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, True),
        ({T: (0, 1)}, {T: (1, 0)}, True),
        ({T: (0, 1), U: (2,)}, {U: (2,), T: (1, 0)}, True),
        ({T: (0, 1)}, {T: (0,)}, False),
        ({T: (0,)}, {T: (0,), U: (1,)}, False),
        ({T: (0,), U: (1,)}, {T: (0,)}, False),
        ({T: (0,), U: (1,)}, {T: (0,), U: (2,)}, False),
    ],
)
def test_is_same_ignores_the_order(
    one: dict[bytes, tuple[int, ...]], other: dict[bytes, tuple[int, ...]], same: bool
) -> None:
    assert is_same(one, other) is same
