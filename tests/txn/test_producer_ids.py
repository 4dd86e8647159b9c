"""Producer ids: each is assigned once, block by block."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.txn.producer_ids import ProducerIds


def test_take_returns_none_before_a_block_is_added() -> None:
    assert ProducerIds().take() is None


def test_block_is_assigned_in_order_until_it_is_empty() -> None:
    ids = ProducerIds()
    ids.add(range(7, 10))
    assert [ids.take() for _ in range(4)] == [7, 8, 9, None]


@given(st.lists(st.one_of(st.none(), st.integers(min_value=0, max_value=5))))
def test_each_id_is_assigned_once_in_any_order_of_blocks_and_takes(
    steps: list[int | None],
) -> None:
    """None takes one; a number adds a block of that many."""
    ids = ProducerIds()
    next_id = 0
    taken = []
    for step in steps:
        if step is None:
            taken.append(ids.take())
        else:
            ids.add(range(next_id, next_id + step))
            next_id += step
    given_out = [each for each in taken if each is not None]
    assert given_out == list(range(len(given_out)))
    while (more := ids.take()) is not None:
        given_out.append(more)
    assert given_out == list(range(next_id))
