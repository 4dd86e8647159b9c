"""A partition by itself: its high watermark, its waiters, and the conditions of a marker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from kwire.cluster.metadata.image import PartitionImage
from kwire.codecs.batches import ControlType, Record, build, control_batch, read_header
from kwire.codecs.control import EndTxnMarker
from kwire.codecs.errors import ErrorCode
from kwire.log import (
    Log,
    LogConfig,
    LogError,
    LogManager,
    MarkerBatch,
    append_as_follower,
    truncate_to,
)
from kwire.log.upkeep.flush import Flush
from kwire.server.metrics.meters import Meters
from kwire.server.metrics.partition import MeasuredPartition
from kwire.storage.partitions.flushing import Flusher
from kwire.storage.partitions.partition import Partition
from tests.log.configs import DEFAULTS, log_config

NOW_MS = 1_700_000_000_000
TOPIC_ID = b"0123456789abcdef"
MakeLog = Callable[[LogConfig], Log]


@pytest.fixture
def make_log(tmp_path: Path) -> MakeLog:
    manager = LogManager([tmp_path], defaults=DEFAULTS, clock=lambda: NOW_MS)
    manager.load()
    return lambda config: manager.create("t", TOPIC_ID, len(manager.logs), config)


class FlushRequests:
    """Records requests to flush, instead of the flusher, which would flush at once."""

    def __init__(self) -> None:
        self.partitions: list[Partition] = []

    def request(self, partition: Partition) -> None:
        self.partitions.append(partition)


def append(partition: Partition) -> None:
    partition.append(build([Record(0, NOW_MS, None, b"v")]), now_ms=NOW_MS)


def test_unflushed_records_stay_uncommitted_after_a_move(make_log: MakeLog) -> None:
    """With `flush.messages` the loop waits for no fsync, before which records are invisible."""
    durable = log_config(flush_messages=1)
    flusher = FlushRequests()
    partition = Partition(make_log(durable), 1, cast(Flusher, flusher))
    partition.follow(PartitionImage(1, 0, 0, (1,), (1,)))
    partition.replace_log(make_log(durable))
    append(partition)
    assert flusher.partitions == [partition]
    assert (partition.log.recovery_point, partition.high_watermark) == (0, 0)
    outcomes: list[ErrorCode] = []
    partition.when_flushed(1, outcomes.append)
    partition.when_flushed(2, outcomes.append)
    partition.flushed(1)
    assert (partition.high_watermark, outcomes) == (1, [ErrorCode.NONE])


def test_append_below_flush_messages_commits_at_once_after_a_flush(make_log: MakeLog) -> None:
    """With `flush.messages` of 2 the third record needs no flush and is committed at once."""
    partition = flushing_partition(make_log, 2)
    states = []
    for _ in range(3):
        append(partition)
        states.append((partition.is_flushing, partition.high_watermark))
        if partition.log.flush_due:
            partition.flushed(flush(partition))
            states.append((partition.is_flushing, partition.high_watermark))
    assert states == [(False, 1), (True, 1), (False, 2), (False, 3)]


@pytest.mark.parametrize("acks", [1, -1])
def test_append_below_flush_messages_waits_for_an_earlier_flush(
    make_log: MakeLog, acks: int
) -> None:
    """With `flush.messages` of 3, the fourth record comes during the flush of the third, and the
    fifth during the flush of the fourth.  No later flush would commit the fifth."""
    partition = flushing_partition(make_log, 3)
    outcomes: list[ErrorCode] = []
    for _ in range(3):
        append(partition)
    first = prepared(partition)
    append(partition)
    partition.flushed(carried_out(partition, first))
    assert (partition.is_flushing, partition.high_watermark) == (True, 3)
    second = prepared(partition)
    append(partition)
    assert not partition.log.flush_due
    wait = partition.when_flushed if acks == 1 else partition.when_replicated
    wait(5, outcomes.append)
    assert (partition.high_watermark, outcomes) == (3, [])
    partition.flushed(carried_out(partition, second))
    assert (partition.is_flushing, partition.high_watermark) == (False, 5)
    assert outcomes == [ErrorCode.NONE]


def flushing_partition(make_log: MakeLog, flush_messages: int) -> Partition:
    log = make_log(log_config(flush_messages=flush_messages))
    partition = Partition(log, 1, cast(Flusher, FlushRequests()))
    partition.follow(PartitionImage(1, 0, 0, (1,), (1,)))
    return partition


def prepared(partition: Partition) -> Flush:
    """Begin a flush, which does not include records that are appended from now on."""
    partition.log.flush_due = False
    found = partition.log.prepare_flush(NOW_MS)
    assert found is not None
    return found


def carried_out(partition: Partition, flush: Flush) -> int:
    flush.run()
    partition.log.flushed(flush)
    return flush.end_offset


def flush(partition: Partition) -> int:
    return carried_out(partition, prepared(partition))


def test_read_committed_continues_after_a_move_to_another_log_directory(make_log: MakeLog) -> None:
    """The copy has the transaction's marker, and must know that the marker is replicated."""
    partition = Partition(make_log(log_config()), 1)
    partition.follow(PartitionImage(1, 0, 0, (1,), (1,)))
    copy = make_log(log_config())
    record = Record(0, NOW_MS, None, b"v")
    batches = [
        build([record], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        control_batch(ControlType.COMMIT, 0, producer_id=7, producer_epoch=0, timestamp=NOW_MS),
    ]
    for log in (partition.log, copy):
        for offset, batch in enumerate(batches):
            numbered = bytearray(batch)
            numbered[0:8] = offset.to_bytes(8)
            append_as_follower(log, numbered, leader_epoch=0, now_ms=NOW_MS)
    partition.advance_high_watermark(2, 0)
    assert partition.last_stable_offset == partition.high_watermark == 2
    partition.replace_log(copy)
    assert partition.last_stable_offset == partition.high_watermark == 2


def test_append_without_a_flusher_is_durable(make_log: MakeLog) -> None:
    durable = log_config(flush_messages=1)
    partition = Partition(make_log(durable), 1)
    partition.follow(PartitionImage(1, 0, 0, (1,), (1,)))
    for _ in range(2):
        append(partition)
        assert partition.log.recovery_point == partition.high_watermark == partition.log_end_offset
        partition.replace_log(make_log(durable))
        partition.high_watermark = 0


def test_marker_needs_min_insync_replicas(make_log: MakeLog) -> None:
    partition = Partition(make_log(log_config(min_insync_replicas=2)), 1)
    partition.follow(PartitionImage(1, 0, 0, (1, 2), (1,)))
    marker = control_batch(ControlType.ABORT, 0, producer_id=7, producer_epoch=0, timestamp=NOW_MS)

    def write() -> None:
        partition.append_marker(
            marker.copy(),
            read_header(marker),
            EndTxnMarker(ControlType.ABORT, 0),
            now_ms=NOW_MS,
            transaction_version=0,
        )

    with pytest.raises(LogError) as caught:
        write()
    assert caught.value.error is ErrorCode.NOT_ENOUGH_REPLICAS
    append(partition)  # acks=1 does not ask
    partition.follow(PartitionImage(1, 0, 0, (1, 2), (1, 2)))
    write()
    assert partition.log_end_offset == 2
    assert partition.high_watermark == 1, "the other has not fetched it yet"


def marker_batch(producer_id: int) -> MarkerBatch:
    marker = control_batch(
        ControlType.COMMIT, 0, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS
    )
    return MarkerBatch(marker, read_header(marker), EndTxnMarker(ControlType.COMMIT, 0), 0)


def test_markers_that_share_a_write_need_min_insync_replicas(make_log: MakeLog) -> None:
    partition = Partition(make_log(log_config(min_insync_replicas=2)), 1)
    partition.follow(PartitionImage(1, 0, 0, (1, 2), (1,)))
    with pytest.raises(LogError) as caught:
        partition.append_markers([marker_batch(7), marker_batch(8)], now_ms=NOW_MS)
    assert caught.value.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log_end_offset == 0


def test_markers_that_share_a_write_count_as_one_append_each(make_log: MakeLog) -> None:
    """As in Apache Kafka, which appends them one by one."""
    meters = Meters()
    partition = MeasuredPartition(meters, make_log(log_config()), 1)
    partition.follow(PartitionImage(1, 0, 0, (1,), (1,)))
    batches = [marker_batch(7), marker_batch(8)]
    assert partition.append_markers(batches, now_ms=NOW_MS) == [ErrorCode.NONE] * 2
    partition.fold()
    meter = meters.topic("t")
    assert (meter.messages_in, meter.produce_requests) == (2, 2)
    assert meter.bytes_in == sum(len(batch.batch) for batch in batches)
    assert partition.high_watermark == 2


def test_when_replicated_calls_back_at_once_for_committed_offsets(make_log: MakeLog) -> None:
    partition = Partition(make_log(log_config()), 1)
    partition.follow(PartitionImage(1, 0, 0, (1, 2), (1, 2)))
    for _ in range(3):
        append(partition)
    partition.advance_high_watermark(2, 0)
    outcomes: list[list[ErrorCode]] = [[], [], [], []]
    for offset in (3, 2, 1):
        partition.when_replicated(offset, outcomes[offset].append)
    assert outcomes == [[], [ErrorCode.NONE], [ErrorCode.NONE], []]
    partition.advance_high_watermark(3, 0)
    assert outcomes[3] == [ErrorCode.NONE]


def test_stopped_partition_has_no_leader_and_answers_waiters(make_log: MakeLog) -> None:
    """Also waiters for offsets before the high watermark are answered at once."""
    partition = Partition(make_log(DEFAULTS), 1)
    partition.follow(PartitionImage(1, 0, 0, (1, 2), (1, 2)))
    append(partition)
    outcomes: list[ErrorCode] = []
    partition.when_replicated(1, outcomes.append)
    partition.when_flushed(1, outcomes.append)
    assert outcomes == []
    partition.stop(ErrorCode.KAFKA_STORAGE_ERROR)
    assert outcomes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert partition.leader == -1
    with pytest.raises(LogError):
        partition.check_leads()
    partition.advance_high_watermark(1, 0)
    partition.flushed(1)
    assert len(outcomes) == 2, "once"


@pytest.mark.parametrize(("known", "high_watermark"), [(None, 3), (2, 2), (3, 3), (4, 3)])
def test_high_watermark_begins_at_the_checkpoint_with_other_replicas(
    make_log: MakeLog, known: int | None, high_watermark: int
) -> None:
    """But not above the log's end, which may have been truncated since."""
    log = make_log(DEFAULTS)
    log.append(
        build([Record(i, NOW_MS, None, b"v") for i in range(3)]), leader_epoch=0, now_ms=NOW_MS
    )
    assert Partition(log, 1, None, known).high_watermark == high_watermark


def test_follower_flushes_by_flush_messages(make_log: MakeLog) -> None:
    flusher = FlushRequests()
    partition = Partition(make_log(log_config(flush_messages=2)), 1, cast(Flusher, flusher))
    for offset, flushes in enumerate([0, 1]):
        batch = build([Record(0, NOW_MS, None, b"v")], base_offset=offset)
        append_as_follower(partition.log, batch, leader_epoch=0, now_ms=NOW_MS)
        partition.followed(offset, 0, len(batch))
        assert len(flusher.partitions) == flushes
    partition.flushed(2)
    assert partition.high_watermark == 1, "what its leader has said; the flush says nothing of it"


class Parked:
    """A waiting fetch."""

    def __init__(self) -> None:
        self.arrived: list[int] = []
        self.changes = 0

    def data_arrived(self, size_bytes: int) -> None:
        self.arrived.append(size_bytes)

    def partition_changed(self) -> None:
        self.changes += 1


def follower_with(make_log: MakeLog, count: int) -> Partition:
    """A partition that broker 2 leads, with `count` records in this replica."""
    partition = Partition(make_log(DEFAULTS), 1, None, 0)
    partition.follow(PartitionImage(2, 0, 0, (1, 2), (1, 2)))
    for offset in range(count):
        batch = build([Record(0, NOW_MS, None, b"v")], base_offset=offset)
        append_as_follower(partition.log, batch, leader_epoch=0, now_ms=NOW_MS)
    return partition


def test_followers_high_watermark_is_at_most_its_log_end(make_log: MakeLog) -> None:
    partition = follower_with(make_log, 3)
    parked = Parked()
    partition.fetch_waiters.add(parked)
    offsets = []
    for high_watermark in (2, 1, 9):
        partition.followed(high_watermark, 0, 10 * high_watermark)
        offsets.append(partition.high_watermark)
    assert offsets == [2, 2, 3], "it does not go back, and ends with the log"
    assert parked.arrived == [20, 10, 90]


def test_follower_takes_the_leaders_log_start_once_it_is_committed(
    make_log: MakeLog,
) -> None:
    partition = follower_with(make_log, 3)
    starts = []
    for high_watermark, log_start_offset in ((1, 2), (2, 2), (2, 1), (3, 3)):
        partition.followed(high_watermark, log_start_offset, 0)
        starts.append(partition.log_start_offset)
    assert starts == [0, 2, 2, 3]


def test_high_watermark_of_a_truncated_log_is_at_most_its_end(make_log: MakeLog) -> None:
    partition = follower_with(make_log, 3)
    partition.followed(2, 0, 0)
    partition.truncated()
    assert partition.high_watermark == 2
    truncate_to(partition.log, 1, NOW_MS)
    partition.truncated()
    assert (partition.high_watermark, partition.log_end_offset) == (1, 1)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, None),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_request_with_another_leader_epoch_is_refused(
    make_log: MakeLog, epoch: int, error: ErrorCode | None
) -> None:
    partition = Partition(make_log(DEFAULTS), 1)
    partition.follow(PartitionImage(1, 5, 0, (1,), (1,)))
    if error is None:
        partition.check_leader_epoch(epoch)
        return
    with pytest.raises(LogError) as caught:
        partition.check_leader_epoch(epoch)
    assert caught.value.error is error


def test_waiting_fetches_wake_only_for_a_new_leader_or_epoch(make_log: MakeLog) -> None:
    partition = Partition(make_log(DEFAULTS), 1)
    partition.follow(PartitionImage(1, 3, 0, (1, 2), (1, 2)))
    consumer, replica = Parked(), Parked()
    partition.fetch_waiters.add(consumer)
    partition.replica_waiters.add(replica)
    states = []
    for leader, leader_epoch, isr in ((1, 3, (1,)), (1, 4, (1,)), (2, 5, (1, 2)), (1, 6, (1,))):
        partition.follow(PartitionImage(leader, leader_epoch, 7, (1, 2), isr))
        assert (partition.isr, partition.partition_epoch) == (isr, 7)
        states.append((consumer.changes, replica.changes, partition.led_since_epoch))
    assert states == [(0, 0, 3), (1, 1, 3), (2, 2, 3), (3, 3, 6)]


@pytest.mark.parametrize(
    ("isr", "replicas", "acks", "is_refused"),
    [
        ((1,), (1, 2, 3), -1, True),
        ((1, 2), (1, 2, 3), -1, False),
        ((1,), (1, 2, 3), 1, False),
        ((1,), (1, 2, 3), 0, False),
        ((1,), (1,), -1, False),
    ],
)
def test_acks_all_needs_min_insync_replicas_or_all_replicas(
    make_log: MakeLog, isr: tuple[int, ...], replicas: tuple[int, ...], acks: int, is_refused: bool
) -> None:
    partition = Partition(make_log(log_config(min_insync_replicas=2)), 1)
    partition.follow(PartitionImage(1, 0, 0, replicas, isr))
    assert partition.is_under_min_isr is (len(isr) < 2 and len(replicas) > 1)
    batch = build([Record(0, NOW_MS, None, b"v")])
    if not is_refused:
        partition.append(batch, now_ms=NOW_MS, required_acks=acks)
        return
    with pytest.raises(LogError) as caught:
        partition.append(batch, now_ms=NOW_MS, required_acks=acks)
    assert caught.value.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log_end_offset == 0


def test_waiters_for_one_offset_are_answered_in_their_order(make_log: MakeLog) -> None:
    partition = Partition(make_log(DEFAULTS), 1)
    partition.follow(PartitionImage(1, 0, 0, (1, 2), (1, 2)))
    for _ in range(3):
        append(partition)
    called: list[str] = []

    def note(name: str) -> Callable[[ErrorCode], None]:
        return lambda error: called.append(name)

    for name, offset in (("b", 2), ("a", 1), ("d", 3), ("c", 2)):
        partition.when_replicated(offset, note(name))
    partition.advance_high_watermark(1, 0)
    assert called == ["a"]
    partition.advance_high_watermark(3, 0)
    assert called == ["a", "b", "c", "d"]
