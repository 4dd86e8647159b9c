"""The marker that ends a transaction: its bytes, and when its writer reports it as written."""

from __future__ import annotations

import pytest

from kwire.cluster.metadata.image import PartitionImage
from kwire.codecs.batches import ControlType, EndTxnMarker, read_header, read_marker, records
from kwire.codecs.errors import ErrorCode
from kwire.storage.partitions.partition import Partition
from kwire.storage.partitions.txn_marker import MarkerWriter, Settle, TxnMarker
from tests.requests.handlers.node import Node


def writer_of(node: Node, marker: TxnMarker, settle: Settle) -> MarkerWriter:
    broker = node.broker
    groups = broker.coordinators
    return MarkerWriter(broker.hosted, lambda: groups.groups, marker, settle, broker.now_ms())


NONE = ErrorCode.NONE


class Outcomes:
    """Collects the results of markers that were not written at once."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, int, ErrorCode]] = []

    def __call__(self, topic: str, index: int, error: ErrorCode) -> None:
        self.reported.append((topic, index, error))


@pytest.fixture
def begun(node: Node) -> Node:
    """Producer 7 has a transaction open in both partitions of `t`."""
    node.create("t", 2)
    for index in range(2):
        node.append("t", index, producer=(7, 3, 0), transactional=True)
    return node


def marker(
    *, commit: bool = True, epoch: int = 3, coordinator_epoch: int = 5, version: int = 1
) -> TxnMarker:
    return TxnMarker(7, epoch, coordinator_epoch, commit, version)


def last_batch(partition: Partition) -> bytes:
    end = partition.log_end_offset
    region = partition.read(end - 1, 1 << 20, max_offset=end, min_one_batch=True)
    assert region is not None
    return region.read()


def content(batch: bytes) -> EndTxnMarker | None:
    [record] = records(batch)
    return read_marker(record)


@pytest.mark.parametrize("commit", [True, False])
def test_marker_has_the_outcome_and_the_coordinator_epoch(begun: Node, *, commit: bool) -> None:
    outcomes = Outcomes()
    before_ms = begun.broker.now_ms()
    writer = writer_of(begun, marker(commit=commit), outcomes)
    assert [writer.write("t", index) for index in range(2)] == [NONE, NONE]
    for index in range(2):
        partition = begun.partition("t", index)
        batch = last_batch(partition)
        header = read_header(batch)
        assert (header.base_offset, header.producer_id, header.producer_epoch) == (5, 7, 3)
        assert header.is_control
        assert before_ms <= header.max_timestamp <= begun.broker.now_ms()
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        assert content(batch) == EndTxnMarker(kind, 5)
        assert partition.last_stable_offset == partition.high_watermark == 6
    assert outcomes.reported == [], "it was reported at once"


@pytest.mark.parametrize("lost", [False, True])
def test_marker_result_is_reported_once_replicas_have_it(begun: Node, *, lost: bool) -> None:
    """If this broker stops leading first, the result is an error; the coordinator tries again."""
    for index in range(2):
        begun.partition("t", index).follow(PartitionImage(1, 0, 0, (1, 2), (1, 2)))
    outcomes = Outcomes()
    writer = writer_of(begun, marker(), outcomes)
    assert [writer.write("t", 1), writer.write("t", 0)] == [None, None]
    assert outcomes.reported == []
    for index in range(2):
        partition = begun.partition("t", index)
        partition.advance_high_watermark(5, 0)
        assert outcomes.reported == [("t", each, _outcome(lost)) for each in range(index)]
        if lost:
            partition.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            partition.advance_high_watermark(6, 0)
    assert outcomes.reported == [("t", 0, _outcome(lost)), ("t", 1, _outcome(lost))]


def _outcome(lost: bool) -> ErrorCode:
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if lost else NONE


@pytest.mark.parametrize(
    ("topic", "index", "of", "error"),
    [
        ("t", 9, marker(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0, marker(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, marker(epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        ("t", 0, marker(version=2), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_marker_is_refused_with_the_partitions_error(
    begun: Node, topic: str, index: int, of: TxnMarker, error: ErrorCode
) -> None:
    """In transactions of version 2 (KIP-890) a marker's epoch is above that of its batches."""
    writer = writer_of(begun, of, outcomes := Outcomes())
    assert writer.write(topic, index) == error
    assert begun.partition("t").log_end_offset == 5
    assert outcomes.reported == []


def test_marker_of_an_older_coordinator_epoch_is_refused(begun: Node) -> None:
    outcomes = Outcomes()
    assert writer_of(begun, marker(coordinator_epoch=5), outcomes).write("t", 0) == NONE
    begun.append("t", producer=(7, 3, 5), transactional=True)
    old = writer_of(begun, marker(coordinator_epoch=4), outcomes)
    assert old.write("t", 0) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


async def test_marker_in_the_offsets_topic_is_written_by_the_group_coordinator(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator holds the offsets that the transaction commits."""
    node.create("__consumer_offsets", 3)
    markers: list[tuple[int, bytes, bool, int]] = []

    def end_transaction(
        index: int, batch: bytearray, *, commit: bool, transaction_version: int
    ) -> None:
        markers.append((index, bytes(batch), commit, transaction_version))

    monkeypatch.setattr(node.broker.coordinators.groups, "end_transaction", end_transaction)
    for commit in (True, False):
        writer = writer_of(node, marker(commit=commit, version=2), Outcomes())
        assert writer.write("__consumer_offsets", 2) == NONE
    assert [(index, commit, version) for index, _, commit, version in markers] == [
        (2, True, 2),
        (2, False, 2),
    ]
    assert [content(batch) for _, batch, _, _ in markers] == [
        EndTxnMarker(ControlType.COMMIT, 5),
        EndTxnMarker(ControlType.ABORT, 5),
    ]
    assert node.partition("__consumer_offsets", 2).log_end_offset == 0


def of_producers(node: Node, outcomes: Outcomes) -> list[MarkerWriter]:
    """Writers for two producers with an open transaction in `t`-0, and for one with a stale epoch.

    Producer 7 has its transaction from the fixture.
    """
    node.append("t", producer=(8, 0, 0), transactional=True)
    node.append("t", producer=(9, 3, 0), transactional=True)
    return [
        writer_of(node, TxnMarker(producer_id, epoch, 5, True, 1), outcomes)
        for producer_id, epoch in ((7, 3), (9, 2), (8, 0))
    ]


def test_markers_that_are_written_together_have_the_results_of_each(begun: Node) -> None:
    writers = of_producers(begun, outcomes := Outcomes())
    stale = ErrorCode.INVALID_PRODUCER_EPOCH
    assert MarkerWriter.write_together(writers, "t", 0) == [NONE, stale, NONE]
    partition = begun.partition("t")
    assert (partition.log_end_offset, partition.last_stable_offset) == (17, 10)
    assert outcomes.reported == []
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert MarkerWriter.write_together(writers, "t", 9) == [unknown] * 3


def test_markers_that_are_written_together_wait_for_replicas(begun: Node) -> None:
    writers = of_producers(begun, outcomes := Outcomes())
    partition = begun.partition("t")
    partition.follow(PartitionImage(1, 0, 0, (1, 2), (1, 2)))
    stale = ErrorCode.INVALID_PRODUCER_EPOCH
    assert MarkerWriter.write_together(writers, "t", 0) == [None, stale, None]
    assert outcomes.reported == []
    partition.advance_high_watermark(17, 0)
    assert outcomes.reported == [("t", 0, NONE)] * 2


async def test_markers_in_the_offsets_topic_are_written_one_by_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("__consumer_offsets", 3)
    ended: list[int] = []

    def end_transaction(index: int, batch: bytearray, **_: object) -> None:
        ended.append(read_header(batch).producer_id)

    monkeypatch.setattr(node.broker.coordinators.groups, "end_transaction", end_transaction)
    writers = [
        writer_of(node, TxnMarker(producer_id, 0, 5, True, 2), Outcomes()) for producer_id in (7, 8)
    ]
    assert MarkerWriter.write_together(writers, "__consumer_offsets", 2) == [NONE, NONE]
    assert ended == [7, 8]
