"""A disk that is full for a while, and a process that lacks file descriptors for a while.

An append without room is refused with KAFKA_STORAGE_ERROR and changes nothing.  Everything else
is served, and once there is room again the logs are as if the shortage had not happened.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.control import ControlType, control_batch
from kwire.codecs.errors import ErrorCode
from kwire.log import (
    Log,
    LogConfig,
    LogDirError,
    LogError,
    LogManager,
    aborted_transactions,
    append_as_follower,
)
from kwire.log.directory.shortage import PASSING
from kwire.log.origin import Origin
from kwire.log.upkeep.job import run_all
from tests.log.configs import DEFAULTS, log_config
from tests.log.failing_disk import FailingDisk

if TYPE_CHECKING:
    from tests.log.conftest import Append, MakeBatch, OpenLog, ReadAll

TOPIC_ID = b"0123456789abcdef"

NOW_MS = 1_700_000_000_000
FULL, NO_DESCRIPTORS = errno.ENOSPC, errno.EMFILE


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk("/")


@pytest.fixture
def log(open_log: OpenLog, disk: FailingDisk) -> Log:
    return open_log(log_config(segment_bytes=320, index_interval_bytes=0), files=disk)


def short_of(disk: FailingDisk, code: int, *calls: str) -> None:
    disk.calls, disk.error, disk.broken = calls, OSError(code, "made up"), True


def refused(log: Log, batch: bytearray) -> None:
    """Check that an append is refused and changes neither log nor batch."""
    before, end, names = bytes(batch), log.log_end_offset, file_names(log)
    with pytest.raises(LogError) as caught:
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (bytes(batch), log.log_end_offset, file_names(log)) == (before, end, names)
    assert not log.offline


def file_names(log: Log) -> set[str]:
    """The names of the segments' files."""
    return {path.name for path in log.dir.iterdir() if path.name[0].isdigit()}


@pytest.mark.parametrize("call", ["write", "rename"])
def test_topic_id_is_adopted_once_the_disk_has_room(
    open_log: OpenLog, disk: FailingDisk, append: Append, call: str
) -> None:
    append(open_log(topic_id=bytes(16), files=disk))
    log = open_log(topic_id=bytes(16), files=disk)
    short_of(disk, FULL, call)
    with pytest.raises(LogError) as caught:
        log.adopt_topic_id(TOPIC_ID)
    assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.offline
    assert log.topic_id == bytes(16)
    disk.broken = False
    log.adopt_topic_id(TOPIC_ID)
    assert open_log(topic_id=bytes(16)).topic_id == TOPIC_ID


@pytest.mark.parametrize("call", ["pwrite", "short write"])
@pytest.mark.parametrize("code", sorted(PASSING))
def test_append_refused_on_a_full_disk_succeeds_later(
    log: Log, disk: FailingDisk, append: Append, make_batch: MakeBatch, read_all: ReadAll,
    call: str, code: int,
) -> None:  # fmt: skip
    append(log, 2)
    batch = make_batch(1)
    short_of(disk, code, call)
    refused(log, batch)
    disk.broken = False
    assert log.append(batch, leader_epoch=0, now_ms=NOW_MS).first_offset == 2
    assert [record.offset for record in read_all(log)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("code", "call", "suffix"),
    [
        (FULL, "pwrite", ".snapshot"),
        (FULL, "short write", ".snapshot"),
        (NO_DESCRIPTORS, "write", ".index"),
        (NO_DESCRIPTORS, "write", ".timeindex"),
        (NO_DESCRIPTORS, "write", ".snapshot"),
        (NO_DESCRIPTORS, "open", ".log"),
    ],
)
def test_segment_that_cannot_be_created_leaves_no_files(
    log: Log, disk: FailingDisk, append: Append, make_batch: MakeBatch, read_all: ReadAll,
    open_log: OpenLog, code: int, call: str, suffix: str,
) -> None:  # fmt: skip
    end, batch = fill_segment(log, append, make_batch)
    disk.word = f"{end:020d}{suffix}"
    short_of(disk, code, call)
    refused(log, batch)
    assert not [name for name in file_names(log) if name.startswith(f"{end:020d}")]
    disk.broken = False
    assert log.append(batch, leader_epoch=0, now_ms=NOW_MS).first_offset == end
    assert [segment.base_offset for segment in log.segments] == [0, end]
    again = open_log(log_config(segment_bytes=320))
    assert [record.offset for record in read_all(again)] == list(range(end + 1))
    assert again.producers.entries[7].next_sequence == end + 1


@pytest.mark.parametrize(("code", "call"), [(FULL, "pwrite"), (NO_DESCRIPTORS, "open")])
def test_roll_is_refused_if_an_index_cannot_be_written(
    log: Log, disk: FailingDisk, append: Append, make_batch: MakeBatch, code: int, call: str
) -> None:
    """The old segment stays active until its index can be written."""
    end, batch = fill_segment(log, append, make_batch)
    disk.word = f"{0:020d}.timeindex"
    short_of(disk, code, call)
    refused(log, batch)
    refused(log, batch)
    disk.broken = False
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, end]
    assert log.segments.first.time_index.count == 1


def fill_segment(log: Log, append: Append, make_batch: MakeBatch) -> tuple[int, bytearray]:
    """Fill a segment; the log's end, and a batch that needs a new segment."""
    batch = make_batch(1, producer_id=7, producer_epoch=0, base_sequence=0)
    while log.segments.active.size_bytes + len(batch) <= 320:
        append(log, producer_id=7, producer_epoch=0, base_sequence=log.log_end_offset)
    end = log.log_end_offset
    return end, make_batch(1, producer_id=7, producer_epoch=0, base_sequence=end)


CHANGED = {
    "as it is": DEFAULTS,
    "stamped": log_config(message_timestamp_type="LogAppendTime"),
    "compressed": log_config(compression_type="lz4"),
}


@pytest.mark.parametrize("config", CHANGED.values(), ids=list(CHANGED))
def test_refused_batch_that_was_rewritten_for_its_topic_is_unchanged(
    open_log: OpenLog, disk: FailingDisk, make_batch: MakeBatch, config: LogConfig
) -> None:
    """Produce's shortcut passes a refused batch on to the full handler."""
    log = open_log(config, files=disk)
    batch = make_batch(3, producer_id=7, producer_epoch=0, base_sequence=0)
    short_of(disk, FULL, "pwrite")
    refused(log, batch)
    disk.broken = False
    assert log.append(batch, leader_epoch=0, now_ms=NOW_MS).last_offset == 2
    late = make_batch(1, producer_id=7, producer_epoch=0, base_sequence=5)
    before = bytes(late)
    with pytest.raises(LogError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        log.append(late, leader_epoch=0, now_ms=NOW_MS)
    assert bytes(late) == before


def test_append_is_refused_before_the_write_without_descriptors(
    open_log: OpenLog, disk: FailingDisk, make_batch: MakeBatch
) -> None:
    """To producers KAFKA_STORAGE_ERROR means that the batch is not in the log."""
    log = open_log(log_config(flush_messages=1), files=disk)
    batch = make_batch(1)
    short_of(disk, NO_DESCRIPTORS, "open_folder")
    refused(log, batch)
    disk.broken = False
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert log.recovery_point == 1


def test_flush_without_descriptors_is_complete_the_next_time(
    log: Log, disk: FailingDisk, append: Append, make_batch: MakeBatch
) -> None:
    end, batch = fill_segment(log, append, make_batch)
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    short_of(disk, NO_DESCRIPTORS, "open_folder")
    with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
        log.flush()
    assert (log.snapshots.unsynced, log.recovery_point) == ({end}, 0)
    disk.broken = False
    log.flush()
    assert (log.snapshots.unsynced, log.recovery_point) == (set(), end + 1)


def test_leader_epoch_that_could_not_be_written_is_written_later(
    log: Log, disk: FailingDisk, append: Append, make_batch: MakeBatch
) -> None:
    append(log, leader_epoch=0)
    batch = make_batch(1)
    short_of(disk, FULL, "pwrite")
    disk.word = "leader-epoch-checkpoint"
    with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
        log.append(batch, leader_epoch=3, now_ms=NOW_MS)
    disk.broken = False
    log.append(batch, leader_epoch=3, now_ms=NOW_MS)
    assert "3 1" in (log.dir / "leader-epoch-checkpoint").read_text().splitlines()


@pytest.mark.parametrize("call", ["pwrite", "rename"])
def test_follower_has_no_batch_without_its_producer_state(
    log: Log, disk: FailingDisk, make_batch: MakeBatch, call: str
) -> None:
    """Otherwise, once this log leads, a retry of its producer would be appended twice."""
    first = make_batch(producer_id=5, base_sequence=0)
    log.append(first, leader_epoch=0, now_ms=NOW_MS)
    sent = b""
    for number, epoch in ((1, 0), (2, 1), (3, 2)):  # appended by the leaders of three epochs
        batch = make_batch(producer_id=5, base_sequence=number)
        with_offset(batch, base_offset=number, leader_epoch=epoch)
        sent += batch
    short_of(disk, FULL, call)
    disk.word = "leader-epoch-checkpoint"
    with pytest.raises(LogError) as caught:
        append_as_follower(log, bytearray(sent), leader_epoch=2, now_ms=NOW_MS)
    assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.offline
    assert log.log_end_offset == log.producers.end_offset == 2, "the batch of the known epoch is in"
    assert log.epochs.entries == [(0, 0)]
    disk.broken = False
    rest = bytearray(sent[len(sent) // 3 :])
    append_as_follower(log, rest, leader_epoch=2, now_ms=NOW_MS)
    assert log.epochs.entries == [(0, 0), (1, 2), (2, 3)]
    for number in range(4):
        again = make_batch(producer_id=5, base_sequence=number)
        assert log.append(again, leader_epoch=3, now_ms=NOW_MS).first_offset == number
    assert log.log_end_offset == 4


def with_offset(batch: bytearray, *, base_offset: int, leader_epoch: int) -> None:
    """The batch with the offset and epoch of its leader, which the CRC does not cover."""
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">i", batch, 12, leader_epoch)


@pytest.mark.parametrize(("code", "call"), [(FULL, "pwrite"), (NO_DESCRIPTORS, "open")])
def test_aborted_transaction_is_listed_before_its_index_is_written(
    log: Log, disk: FailingDisk, append: Append, open_log: OpenLog, code: int, call: str
) -> None:
    """The marker is in the log already, so it cannot be refused."""
    append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    disk.word = ".txnindex"
    short_of(disk, code, call)
    marker = control_batch(ControlType.ABORT, 1, producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    log.segments.active.release()
    assert aborted_transactions(log, 0, 3) == [(7, 0)]
    disk.broken = False
    log.close()
    again = open_log(clean=True, recovery_point=3)
    assert aborted_transactions(again, 0, 3) == [(7, 0)]


def test_read_without_descriptors_is_refused(log: Log, disk: FailingDisk, append: Append) -> None:
    append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    marker = control_batch(ControlType.ABORT, 1, producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    log.segments.active.release()
    short_of(disk, NO_DESCRIPTORS, "open", "read")
    with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
        log.read(0, 1000, max_offset=3, min_one_batch=True)
    with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
        aborted_transactions(log, 0, 3)
    disk.broken = False
    assert log.read(0, 1000, max_offset=3, min_one_batch=True) is not None
    assert aborted_transactions(log, 0, 3) == [(7, 0)]


@pytest.fixture
def manager(tmp_path: Path, disk: FailingDisk) -> Iterator[LogManager]:
    made = LogManager([tmp_path / "data"], defaults=DEFAULTS, files=disk, clock=lambda: NOW_MS)
    yield made
    made.close()


def test_partition_creation_is_refused_on_a_full_disk_until_room(
    manager: LogManager, disk: FailingDisk
) -> None:
    short_of(disk, NO_DESCRIPTORS, "open")
    with pytest.raises(LogError) as caught:
        manager.create("t", TOPIC_ID, 0)
    assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert not manager.offline_dirs
    disk.broken = False
    assert manager.create("t", TOPIC_ID, 0).log_end_offset == 0


def test_checkpoint_is_written_again_after_a_shortage(
    manager: LogManager, disk: FailingDisk
) -> None:
    manager.create("t", TOPIC_ID, 0)
    path = manager.online_dirs[0].path / "recovery-point-offset-checkpoint"
    short_of(disk, FULL, "pwrite")
    run_all(manager.maintain(NOW_MS + 60_000))
    assert not path.exists()
    disk.broken = False
    run_all(manager.maintain(NOW_MS + 120_000))
    assert path.exists()
    assert not manager.offline_dirs


def test_deletion_succeeds_if_the_renamed_folder_cannot_be_fsynced(
    manager: LogManager, disk: FailingDisk
) -> None:
    manager.create("t", TOPIC_ID, 0)
    short_of(disk, NO_DESCRIPTORS, "open_folder")
    manager.delete("t", 0)
    assert not manager.offline_dirs
    assert [folder.path.exists() for folder in manager.maintenance.deleted] == [True]


def test_start_fails_without_room_for_the_recovery(
    manager: LogManager, disk: FailingDisk, append: Append
) -> None:
    """The broker logs the reason and ends, instead of running without logs."""
    append(manager.create("t", TOPIC_ID, 0))
    path = manager.online_dirs[0].path
    manager.online_dirs[0].unlock()  # as if killed
    again = LogManager([path], defaults=DEFAULTS, files=disk, clock=lambda: NOW_MS)
    short_of(disk, FULL, "pwrite")
    with pytest.raises(LogDirError, match=r"none of the log\.dirs can be used: .*made up"):
        again.load()
    disk.broken = False
    later = LogManager([path], defaults=DEFAULTS, files=disk, clock=lambda: NOW_MS)
    later.load()
    assert later.logs["t", 0].log_end_offset == 1
    later.close()
