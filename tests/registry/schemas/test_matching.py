"""The largest matching has as many pairs as the best of all assignments."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.registry.schemas.json_schema.matching import matched


@pytest.mark.parametrize(
    ("edges", "count"),
    [
        ([], 0),
        ([[], []], 0),
        ([[0], [0]], 1),
        ([[0, 1], [0]], 2),
        ([[0], [0, 1], [1, 2], [2]], 3),
        ([[0, 1], [0, 2], [1], [2, 3]], 4),
    ],
)
def test_small_sets_are_matched(edges: list[list[int]], count: int) -> None:
    assert matched(edges) == count


@given(st.lists(st.lists(st.integers(0, 4), unique=True, max_size=5), max_size=5))
def test_matching_is_as_large_as_the_best_assignment(edges: list[list[int]]) -> None:
    best = max(
        sum(right in options for right, options in zip(order, edges, strict=False))
        for order in permutations(range(5))
    )
    assert matched(edges) == best
