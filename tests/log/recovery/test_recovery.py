"""Recovery of the log of a killed broker."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.control import ControlType, control_batch
from kwire.log import (
    Log,
    Origin,
    aborted_transactions,
    delete_expired_segments,
    delete_records,
    offset_for_timestamp,
)
from kwire.log.error import LogDirError
from tests.log.configs import log_config

if TYPE_CHECKING:
    from tests.log.conftest import Append, MakeBatch, OpenLog, ReadAll

NOW_MS = 1_700_000_000_000
SMALL = log_config(segment_bytes=400, index_interval_bytes=1)
INDEXES = (".index", ".timeindex", ".txnindex")


def fill(log: Log, make_batch: MakeBatch, batches: int = 10) -> None:
    """Append batches of two records by an idempotent producer, with an aborted transaction."""
    for number in range(batches):
        batch = make_batch(
            2,
            timestamp=NOW_MS + number,
            producer_id=1,
            producer_epoch=0,
            base_sequence=2 * number,
            partition_leader_epoch=number // 3,
        )
        log.append(batch, leader_epoch=number // 3, now_ms=NOW_MS)
        if number == 1:
            begun = make_batch(producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
            log.append(begun, leader_epoch=0, now_ms=NOW_MS)
    abort = control_batch(ControlType.ABORT, 0, producer_id=2, producer_epoch=0, timestamp=NOW_MS)
    log.append(abort, leader_epoch=3, now_ms=NOW_MS, origin=Origin.COORDINATOR)


def saved(directory: Path, *suffixes: str) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.suffix in suffixes
    }


@pytest.fixture
def killed(open_log: OpenLog, make_batch: MakeBatch, log_dir: Path) -> Path:
    """A log of three segments after a kill, which lost all state in memory."""
    log = open_log(SMALL)
    fill(log, make_batch)
    assert [segment.base_offset for segment in log.segments] == [0, 7, 15]
    return log_dir


@pytest.mark.slow
@pytest.mark.usefixtures("silence")
def test_recovery_keeps_all_complete_batches_of_a_cut_log(
    killed: Path, open_log: OpenLog, read_all: ReadAll, tmp_path: Path
) -> None:
    last = killed / "00000000000000000015.log"
    whole = last.read_bytes()
    reference = open_log(SMALL, directory=Path(shutil.copytree(killed, tmp_path / "reference")))
    all_records = read_all(reference)
    ends = [0, *(at + header.size_bytes for at, header in reference.segments.active.headers())]
    offsets = [15, *(header.last_offset + 1 for _, header in reference.segments.active.headers())]
    for size in range(len(whole) + 1):
        last.write_bytes(whole[:size])
        log = open_log(SMALL, recovery_point=7)
        kept = max(number for number, end in enumerate(ends) if end <= size)
        assert last.stat().st_size == ends[kept]
        assert log.log_end_offset == offsets[kept], size
        assert read_all(log) == [record for record in all_records if record.offset < offsets[kept]]
        if size % 100 == 0:
            gc.collect()  # closes the files of the logs before


def test_recovered_indexes_equal_those_of_an_intact_log(
    killed: Path, open_log: OpenLog, make_batch: MakeBatch, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    undisturbed = open_log(SMALL, directory=tmp_path / "other")
    fill(undisturbed, make_batch)
    undisturbed.close()
    wanted = saved(tmp_path / "other", *INDEXES)
    for garbage in (b"", b"\0" * 1000, b"\xff" * 1000, None):
        for path in killed.iterdir():
            if path.suffix in INDEXES and garbage is None:
                path.unlink()
            elif path.suffix in INDEXES:
                path.write_bytes(garbage or b"")
        log = open_log(SMALL)
        log.close()
        assert saved(killed, *INDEXES) == wanted
        assert log.producers.entries.keys() == undisturbed.producers.entries.keys()
        assert (
            log.epochs.entries == undisturbed.epochs.entries == [(0, 0), (1, 7), (2, 13), (3, 19)]
        )
        assert aborted_transactions(log, 0, 22) == [(2, 4)]


def test_recovery_cuts_the_log_at_an_invalid_batch(
    killed: Path, open_log: OpenLog, read_all: ReadAll
) -> None:
    middle = killed / "00000000000000000007.log"
    data = bytearray(middle.read_bytes())
    data[-1] ^= 1
    middle.write_bytes(data)
    log = open_log(SMALL)
    assert log.log_end_offset == 13
    assert [segment.base_offset for segment in log.segments] == [0, 7]
    assert not list(killed.glob("00000000000000000015.*"))
    assert log.epochs.entries == [(0, 0), (1, 7)]
    assert log.producers.entries[1].last_sequence == 11
    assert log.producers.entries[2].txn_first_offset == 4
    assert len(read_all(log)) == 13


def test_recovery_does_not_read_below_the_recovery_point(killed: Path, open_log: OpenLog) -> None:
    first = killed / "00000000000000000000.log"
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    assert open_log(SMALL, recovery_point=7).log_end_offset == 22
    assert open_log(SMALL, recovery_point=6).log_end_offset == 5


def test_recovery_cuts_the_log_where_offsets_decrease(
    open_log: OpenLog, append: Append, log_dir: Path
) -> None:
    log = open_log()
    append(log, 2)
    append(log, 2)
    path = log.segments.active.path
    data = path.read_bytes()
    path.write_bytes(data + data[: len(data) // 2])
    assert open_log().log_end_offset == 4
    assert path.read_bytes() == data


def test_recovery_cuts_the_log_at_an_overlapping_batch(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    first, second = (make_batch(3, base_offset=base) for base in (0, 2))
    segment = log.segments.active
    segment.write(0, first + second, len(first + second))
    again = open_log()
    assert (again.log_end_offset, again.segments.size_bytes) == (3, len(first))


def test_no_batch_is_scanned_after_a_clean_stop(killed: Path, open_log: OpenLog) -> None:
    """A scan would find the damage."""
    log = open_log(SMALL)
    log.close()
    last = killed / "00000000000000000015.log"
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    again = open_log(SMALL, clean=True)
    assert (again.log_end_offset, again.recovery_point) == (22, 22)
    assert last.read_bytes() == data


def test_log_with_a_false_clean_marker_is_recovered(killed: Path, open_log: OpenLog) -> None:
    last = killed / "00000000000000000015.log"
    last.write_bytes(last.read_bytes()[:-1] + b"\xff" * 100)
    (killed / "00000000000000000015.index").write_bytes(b"")
    log = open_log(SMALL, clean=True)
    assert log.log_end_offset == 21


@pytest.mark.parametrize("end", [0, 1, 2, 7])
def test_snapshot_is_taken_after_a_clean_stop_without_one(
    open_log: OpenLog, append: Append, log_dir: Path, end: int
) -> None:
    """Apache Kafka does the same: a later recovery begins at this snapshot."""
    log = open_log()
    for _ in range(end):
        append(log)
    log.close()
    for path in log_dir.glob("*.snapshot"):
        path.unlink()
    assert open_log(clean=True).snapshots.offsets == {end}
    assert (log_dir / f"{end:020d}.snapshot").exists()


def test_duplicates_of_the_last_five_batches_are_known_after_reopening(
    killed: Path, open_log: OpenLog, make_batch: MakeBatch
) -> None:
    """The scan has read all of them, in any segment."""
    log = open_log(SMALL)
    for number, offset in ((9, 19), (5, 11)):
        again = make_batch(2, producer_id=1, producer_epoch=0, base_sequence=2 * number)
        appended = log.append(again, leader_epoch=3, now_ms=NOW_MS)
        assert (appended.first_offset, log.log_end_offset) == (offset, 22)


def test_recovery_point_advances_only_with_a_flush(killed: Path, open_log: OpenLog) -> None:
    log = open_log(SMALL, recovery_point=7)
    assert log.recovery_point == 7
    log.flush()
    assert log.recovery_point == 22
    assert open_log(SMALL, recovery_point=99).recovery_point == 22


@pytest.mark.parametrize("damage", ["cut short", "a bit", "missing", "all"])
def test_damaged_producer_snapshot_is_ignored(killed: Path, open_log: OpenLog, damage: str) -> None:
    wanted = {
        entry.producer_id: (entry.last_sequence, entry.txn_first_offset)
        for entry in list(open_log(SMALL).producers.entries.values())
    }
    for path in killed.glob("*.snapshot"):
        data = path.read_bytes()
        if damage == "cut short":
            path.write_bytes(data[:-1])
        elif damage == "a bit":
            path.write_bytes(data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
        elif damage == "missing":
            path.unlink()
        else:
            path.write_bytes(b"\xff" * 56)
    log = open_log(SMALL, recovery_point=15)
    found = {
        entry.producer_id: (entry.last_sequence, entry.txn_first_offset)
        for entry in log.producers.entries.values()
    }
    assert found == wanted


def test_producer_without_records_is_read_from_an_older_snapshot(
    open_log: OpenLog, make_batch: MakeBatch, log_dir: Path
) -> None:
    """Its next batch follows its last one, whose records were removed."""
    log = open_log(SMALL)
    batch = make_batch(2, producer_id=5, producer_epoch=0, base_sequence=0)
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    fill(log, make_batch)
    _, second, *_, newest = [segment.base_offset for segment in log.segments]
    delete_records(log, second, log.log_end_offset)
    assert delete_expired_segments(log, NOW_MS, log.log_end_offset) == 1
    log.flush()
    damaged = log_dir / f"{newest:020}.snapshot"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    again = open_log(SMALL, recovery_point=newest, log_start_offset=second)
    assert again.producers.entries[5].next_sequence == 2
    assert again.producers.entries[1].next_sequence == 20


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_damaged_byte_of_an_index_is_found_or_harmless(
    killed: Path, open_log: OpenLog, read_all: ReadAll, suffix: str
) -> None:
    """An index below the recovery point is checked when it is used."""
    log = open_log(SMALL)
    log.close()
    offsets = list(range(22))
    positions = [log.reader._locate(offset) for offset in offsets]
    places = [(place[0].base_offset, place[1]) for place in positions if place]
    times = [offset_for_timestamp(log, NOW_MS + stamp) for stamp in range(11)]
    path = killed / f"00000000000000000007{suffix}"
    whole = path.read_bytes()
    assert whole
    for at in range(len(whole)):
        for bit in (1, 0x80):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            again = open_log(SMALL, clean=True)
            found = [again.reader._locate(offset) for offset in offsets]
            assert [(place[0].base_offset, place[1]) for place in found if place] == places
            again = open_log(SMALL, clean=True)
            assert [offset_for_timestamp(again, NOW_MS + s) for s in range(11)] == times, (at, bit)


def test_leftovers_of_removal_and_compaction_are_removed(killed: Path, open_log: OpenLog) -> None:
    for name in ("00000000000000000000.log.deleted", "00000000000000000007.index.cleaned"):
        (killed / name).write_bytes(b"x")
    (killed / "00000000000000000099.timeindex").write_bytes(b"orphan")
    log = open_log(SMALL)
    assert log.log_end_offset == 22
    left = {path.name for path in killed.iterdir()}
    assert not [name for name in left if name.endswith((".deleted", ".cleaned"))]
    assert "00000000000000000099.timeindex" not in left


def test_finished_compaction_is_completed_at_load(
    killed: Path, open_log: OpenLog, read_all: ReadAll
) -> None:
    """The first two segments were compacted into one, whose `.swap` files were not renamed yet."""
    log = open_log(SMALL)
    before = read_all(log)
    merged = b"".join((killed / f"{base:020d}.log").read_bytes() for base in (0, 7))
    for suffix in (".log", ".index", ".timeindex"):
        content = merged if suffix == ".log" else b""
        (killed / f"00000000000000000000{suffix}.swap").write_bytes(content)
    log = open_log(log_config(index_interval_bytes=1))
    assert [segment.base_offset for segment in log.segments] == [0, 15]
    assert read_all(log) == before
    assert not list(killed.glob("*.swap"))


def test_finished_compaction_replaces_only_its_sources(
    open_log: OpenLog, append: Append, log_dir: Path, read_all: ReadAll
) -> None:
    """Segments have one record each; the last replaced one begins at the end of the new one."""
    log = open_log()
    for _ in range(4):
        append(log)
        log.roll(NOW_MS)
    log.close()
    before = read_all(log)
    merged = b"".join((log_dir / f"{base:020d}.log").read_bytes() for base in (1, 2))
    (log_dir / f"{1:020d}.log.swap").write_bytes(merged)
    log = open_log(clean=True)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 3, 4]
    assert read_all(log) == before


def test_finished_compaction_removes_old_transaction_indexes(
    killed: Path, open_log: OpenLog
) -> None:
    """Also the index of the first replaced segment is removed, whose name the new one takes."""
    open_log(SMALL).close()
    (only,) = killed.glob("*.txnindex")
    old = killed / "00000000000000000000.txnindex"
    only.rename(old)
    data = (killed / "00000000000000000000.log").read_bytes()
    (killed / "00000000000000000000.log.swap").write_bytes(data)
    log = open_log(SMALL)
    assert not log.segments.first.txn_index.entries
    assert not old.exists()
    assert log.log_end_offset == 22


def test_files_of_other_names_are_left_alone(killed: Path, open_log: OpenLog) -> None:
    """The names may sort before or after those of segments."""
    strange = ["!first", "00000000000000000007", "notes.log", "~last", "x.swap.txt"]
    for name in strange:
        (killed / name).write_text("mine")
    log = open_log(SMALL)
    assert [segment.base_offset for segment in log.segments] == [0, 7, 15]
    assert {name: (killed / name).read_text() for name in strange} == dict.fromkeys(strange, "mine")


def test_producer_of_deleted_records_is_unknown_after_a_recovery(
    open_log: OpenLog, append: Append, log_dir: Path
) -> None:
    """Without a snapshot, the producer state is read from the log start on."""
    log = open_log()
    for name in (5, 6):
        append(log, producer_id=name, producer_epoch=0, base_sequence=0)
    for clean in (True, False):
        for path in log_dir.glob("*.snapshot"):
            path.unlink()
        again = open_log(clean=clean, log_start_offset=1)
        assert list(again.producers.entries) == ([] if clean else [6])


def test_unfinished_split_of_a_segment_is_undone(killed: Path, open_log: OpenLog) -> None:
    """A `.swap` at or behind the first `.cleaned` belongs to what had not finished (KAFKA-6264)."""
    (killed / "00000000000000000007.log.swap").write_bytes(b"")
    (killed / "00000000000000000007.log.cleaned").write_bytes(b"")
    assert open_log(SMALL).log_end_offset == 22


def test_log_start_offset_above_the_log_end_is_ignored(
    killed: Path, open_log: OpenLog, read_all: ReadAll
) -> None:
    """A checkpoint line has no topic id; a valid line never is above what is on disk."""
    before = read_all(open_log(SMALL))
    log = open_log(SMALL, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (0, 22)
    assert read_all(log) == before
    assert list(log.producers.entries.values())


def test_log_start_offset_is_loaded_from_the_checkpoint(killed: Path, open_log: OpenLog) -> None:
    log = open_log(SMALL, log_start_offset=9)
    assert log.log_start_offset == 9
    assert log.epochs.entries[0] == (1, 9)


def test_folder_of_another_topic_id_is_refused(killed: Path, open_log: OpenLog) -> None:
    with pytest.raises(LogDirError, match="belongs to topic id"):
        open_log(topic_id=b"another topic id")


def test_damaged_partition_metadata_is_refused(killed: Path, open_log: OpenLog) -> None:
    (killed / "partition.metadata").write_text("version: 0\ntopic_id: ???")
    with pytest.raises(LogDirError, match="no topic id"):
        open_log(recovery_point=1)
    for spoilt in ("", "version: 0\ntopic_id: MD", "\0" * 43):  # as before a log's first flush
        (killed / "partition.metadata").write_text(spoilt)
        assert open_log().topic_id == b"0123456789abcdef"
        assert "topic_id: MDEyMz" in (killed / "partition.metadata").read_text()


def test_missing_topic_id_is_written(killed: Path, open_log: OpenLog) -> None:
    """For example in a directory of a release without topic ids, or after the loss of the file."""
    (killed / "partition.metadata").unlink()
    log = open_log(topic_id=bytes(16))
    assert log.topic_id == bytes(16)
    log.adopt_topic_id(b"0123456789abcdef")
    assert open_log(topic_id=bytes(16)).topic_id == log.topic_id == b"0123456789abcdef"


def test_lost_leader_epochs_are_rebuilt_from_batches(killed: Path, open_log: OpenLog) -> None:
    for content in (b"", b"0\n1\n", b"rubbish", b"0\n2\n0 0\n1 7\n"):
        (killed / "leader-epoch-checkpoint").write_bytes(content)
        assert open_log(SMALL).epochs.entries == [(0, 0), (1, 7), (2, 13), (3, 19)]
