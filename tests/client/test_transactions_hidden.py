"""Readers of committed records skip aborted batches, which the broker lists (KIP-98)."""

from __future__ import annotations

from kwire.client.fetcher import Aborted
from kwire.codecs.batches import ControlType, Record, build, control_batch, read_header
from kwire.codecs.messages.fetch import AbortedTransaction, PartitionData


def batch(producer_id: int, offset: int, *, transactional: bool = True) -> bytearray:
    record = Record(offset, 0, None, b"v")
    return build([record], base_offset=offset, producer_id=producer_id, transactional=transactional)


def marker(kind: ControlType, producer_id: int, offset: int) -> bytearray:
    return control_batch(
        kind, 0, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
    )


def visible_offsets(batches: list[bytearray], aborted: list[AbortedTransaction]) -> list[int]:
    """Offsets of the data batches that a reader of committed records sees."""
    filtered = Aborted(PartitionData(aborted_transactions=aborted))
    found = []
    for data in batches:
        header = read_header(data)
        if header.is_control:
            filtered.see_marker(header, memoryview(data))
        elif not filtered.hides(header):
            found.append(header.base_offset)
    return found


def test_read_committed_hides_only_the_aborted_transaction() -> None:
    batches = [
        batch(1, 0),
        batch(2, 1),
        batch(3, 2, transactional=False),
        marker(ControlType.ABORT, 1, 3),
        marker(ControlType.COMMIT, 2, 4),
        batch(1, 5),  # the same producer's next transaction
        marker(ControlType.COMMIT, 1, 6),
    ]
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    assert visible_offsets(batches, aborted) == [1, 2, 5]


def test_read_committed_hides_two_aborted_transactions_of_a_producer() -> None:
    batches = [
        batch(1, 0),
        marker(ControlType.ABORT, 1, 1),
        batch(1, 2),
        marker(ControlType.COMMIT, 1, 3),
        batch(1, 4),
        marker(ControlType.ABORT, 1, 5),
        batch(1, 6, transactional=False),
    ]
    aborted = [
        AbortedTransaction(producer_id=1, first_offset=4),
        AbortedTransaction(producer_id=1, first_offset=0),
    ]
    assert visible_offsets(batches, aborted) == [2, 6]


def test_read_committed_hides_nothing_without_aborted_transactions() -> None:
    assert visible_offsets([batch(1, 0), marker(ControlType.COMMIT, 1, 1)], []) == [0]
