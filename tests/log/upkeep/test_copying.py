"""The copy of a log in another directory: made in slices, and equal to the log at the swap."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.control import ControlType, control_batch
from kwire.codecs.errors import ErrorCode
from kwire.log import Log, LogError, LogManager, Origin, delete_records, run_all, truncate_to
from kwire.log.directory import log_dir
from kwire.log.follower import append_as_follower
from kwire.log.upkeep import moving
from tests.log.configs import log_config
from tests.log.contents import INDEXES, contents_of
from tests.log.directory.conftest import NOW_MS, TOPIC_ID, kill

if TYPE_CHECKING:
    from tests.log.conftest import Append, MakeBatch

KEY = "t", 0
LATER_MS = NOW_MS + 1_000
CONFIG = log_config(
    segment_bytes=2_500, index_interval_bytes=0, retention_ms=-1, file_delete_delay_ms=7_000
)


class Clock:
    now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def manager(tmp_path: Path, clock: Clock) -> Iterator[LogManager]:
    made = LogManager([tmp_path / "a", tmp_path / "b"], defaults=CONFIG, clock=clock)
    made.load()
    yield made
    kill(made)


@pytest.fixture
def source(manager: LogManager) -> Log:
    return manager.create("t", TOPIC_ID, 0)


@pytest.fixture
def elsewhere(manager: LogManager, source: Log) -> Path:
    """The directory without the log."""
    (path,) = (d.path for d in manager.online_dirs if d.path != source.dir.parent)
    return path


def fill(log: Log, append: Append, make_batch: MakeBatch) -> None:
    """Append batches of many sizes and epochs, an aborted transaction and an open one."""
    for number, size in enumerate((10, 400, 1, 150, 80, 700, 5, 300)):
        append(log, 1 + number % 3, size=size, leader_epoch=number // 2, timestamp=NOW_MS - number)
        batch = make_batch(producer_id=7, producer_epoch=1, base_sequence=number)
        log.append(batch, leader_epoch=number // 2, now_ms=NOW_MS)
        if number in (1, 6):
            begun = make_batch(
                producer_id=number, producer_epoch=0, base_sequence=0, transactional=True
            )
            log.producers.verify_transactions = False
            log.append(begun, leader_epoch=number // 2, now_ms=NOW_MS)
    abort = control_batch(ControlType.ABORT, 0, producer_id=1, producer_epoch=0, timestamp=NOW_MS)
    log.append(abort, leader_epoch=4, now_ms=NOW_MS, origin=Origin.COORDINATOR)


def sizes(log: Log) -> list[list[tuple[int, int]]]:
    """By segment, (bytes, next offset) of each batch."""
    return [
        [(header.size_bytes, header.last_offset + 1) for _, header in segment.headers()]
        for segment in log.segments
    ]


def slices(segments: list[list[tuple[int, int]]], limit: int) -> list[tuple[int, int]]:
    """(bytes reported, where the copy ends then) of each turn; a slice is of one segment."""
    found = []
    for batches in segments:
        rest = batches
        while rest:
            reported_bytes = max(min(sum(size for size, _ in rest), limit), rest[0][0])
            whole = [
                number
                for number in range(1, len(rest) + 1)
                if sum(size for size, _ in rest[:number]) <= reported_bytes
            ]
            found.append((reported_bytes, rest[whole[-1] - 1][1]))
            rest = rest[whole[-1] :]
    return found


@pytest.mark.parametrize("limit", [1, 150, 500, 1 << 20])
def test_log_is_copied_in_slices_of_the_limit(
    manager: LogManager,
    source: Log,
    elsewhere: Path,
    append: Append,
    make_batch: MakeBatch,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
) -> None:
    fill(source, append, make_batch)
    monkeypatch.setattr(moving, "COPY_BYTES", limit)
    moves, end = manager.moves, source.log_end_offset
    moves.move(KEY, str(elsewhere))
    assert moves.offset_lag(KEY) == end
    for reported_bytes, copied_to in slices(sizes(source), limit):
        assert moves.copy_some(KEY) == reported_bytes
        assert moves.copies[KEY].log.log_end_offset == copied_to
        assert moves.offset_lag(KEY) == end - copied_to
    assert moves.copy_some(KEY) == 0
    append(source, leader_epoch=4)
    assert moves.copy_some(KEY) == sizes(source)[-1][-1][0]
    assert moves.copy_some(KEY) == moves.offset_lag(KEY) == 0


def files_of(folder: Path) -> dict[str, bytes]:
    kept = (".log", *INDEXES)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in kept}


def test_swapped_copy_has_files_and_state_of_the_log(
    manager: LogManager,
    clock: Clock,
    source: Log,
    elsewhere: Path,
    append: Append,
    make_batch: MakeBatch,
) -> None:
    """This covers files, answers, and the state in memory."""
    fill(source, append, make_batch)
    source.assign_epoch(9, source.log_end_offset)
    source.producers.start_verification(99, 3, 2, supports_epoch_bump=True, now_ms=NOW_MS)
    source.first_dirty_offset = 4
    config = log_config(segment_bytes=2_501)
    stamps = range(NOW_MS - 9, NOW_MS + 2)
    clock.now_ms = LATER_MS
    manager.moves.move(KEY, str(elsewhere))
    source.update_config(config)
    while manager.moves.copy_some(KEY):
        pass
    flush = manager.moves.prepare_flush(KEY)
    assert flush is not None
    flush.run()
    copy = manager.moves.copies[KEY].log
    copy.flushed(flush)
    assert copy.durability.last_flush_ms == LATER_MS
    assert copy.recovery_point == source.log_end_offset
    assert manager.moves.prepare_flush(KEY) is None
    unique, end = manager.moves.copies[KEY].unique, source.log_end_offset
    before = contents_of(source, stamps)
    was = source.dir
    log = manager.moves.swap(KEY)
    assert (manager.logs[KEY], manager.moves.copies) == (log, {})
    assert contents_of(log, stamps) == before
    assert (log.dir, log.config, log.topic_id) == (elsewhere / "t-0", config, TOPIC_ID)
    assert log.producers.verifications == source.producers.verifications != {}
    assert log.producers.refused is source.producers.refused
    assert log.first_dirty_offset == 4
    assert log.epochs.entries == source.epochs.entries
    assert log.epochs.latest_epoch == 9
    assert source.offline
    assert source.on_storage_failure is None
    assert log in manager.dirs.changed
    twin = was.with_name(log_dir.delete_folder(*KEY, unique))
    (deleted,) = manager.maintenance.deleted
    assert (deleted.path, deleted.due_ms) == (twin, LATER_MS + config.file_delete_delay_ms)
    for segment in log.segments:
        segment.complete_indexes()
        for path in segment.paths():
            assert path.parent == log.dir
            assert path.exists()
    of_twin = files_of(twin)
    for name, data in files_of(log.dir).items():
        assert name.endswith(INDEXES) or of_twin[name] == data
    clock.now_ms = deleted.due_ms
    run_all(manager.maintain(clock.now_ms))
    assert not twin.exists()
    assert append(log, leader_epoch=10).first_offset == end
    log.roll(LATER_MS)
    assert (log.dir / "leader-epoch-checkpoint").read_text().endswith(f"\n10 {end}\n")
    assert (log.dir / f"{end + 1:020d}.snapshot").exists()


@pytest.mark.parametrize("deleted_to", [3, 4, 5])
def test_copy_restarts_if_records_it_lacks_are_deleted(
    manager: LogManager, source: Log, elsewhere: Path, append: Append, deleted_to: int
) -> None:
    """The copy ends at offset 3. It restarts if the log start moves past its end."""
    for _ in range(3):
        append(source, 3)
    manager.moves.move(KEY, str(elsewhere))
    copy = manager.moves.copies[KEY].log
    region = source.read(0, 1, max_offset=9, min_one_batch=True)
    assert region is not None
    append_as_follower(copy, bytearray(region.read()), leader_epoch=0, now_ms=NOW_MS)
    delete_records(source, deleted_to, 9)
    while manager.moves.copy_some(KEY):
        pass
    assert (copy.segments.first.base_offset, copy.log_end_offset) == (0, 9)
    log = manager.moves.swap(KEY)
    assert (log.log_start_offset, log.log_end_offset) == (deleted_to, 9)


def test_copy_ends_at_a_batch_of_an_unknown_epoch(
    manager: LogManager, source: Log, elsewhere: Path, append: Append
) -> None:
    """Otherwise an incomplete copy would be served."""
    append(source)
    append(source, leader_epoch=1)
    source.epochs.truncate_from_end(1)
    manager.moves.move(KEY, str(elsewhere))
    assert manager.moves.copy_some(KEY)
    assert manager.moves.offset_lag(KEY) == 1
    with pytest.raises(LogError) as refused:
        manager.moves.copy_some(KEY)
    assert refused.value.error is ErrorCode.CORRUPT_MESSAGE


def test_move_is_ignored_repeated_or_replaced_by_its_target(
    manager: LogManager, source: Log, elsewhere: Path, append: Append, tmp_path: Path
) -> None:
    """A move to the present directory cancels; to the same target it changes nothing."""
    here, moves = source.dir.parent, manager.moves
    moves.move(KEY, str(here))
    assert moves.copies == {}
    moves.move(KEY, str(elsewhere))
    first = moves.copies[KEY]
    assert (first.directory.path, first.log.dir.parent) == (elsewhere, elsewhere)
    assert first.log.dir.name == f"t-0.{first.unique}-future"
    moves.move(KEY, str(elsewhere))
    assert moves.copies[KEY] is first
    moves.move(KEY, str(here))
    assert moves.copies == {}
    assert first.log.offline
    assert not first.log.dir.exists()
    assert [folder.due_ms for folder in manager.maintenance.deleted] == [NOW_MS]
    for path, error in (
        (tmp_path / "c", ErrorCode.LOG_DIR_NOT_FOUND),
        (f"{elsewhere}/", ErrorCode.LOG_DIR_NOT_FOUND),
    ):
        with pytest.raises(LogError) as refused:
            moves.move(KEY, str(path))
        assert refused.value.error is error
    with pytest.raises(LogError) as refused:
        moves.move(("t", 1), str(elsewhere))
    assert refused.value.error is ErrorCode.REPLICA_NOT_AVAILABLE


@pytest.mark.parametrize("length", [212, 213, 214])
def test_move_of_a_topic_with_a_too_long_name_is_refused(
    manager: LogManager, source: Log, elsewhere: Path, length: int
) -> None:
    """A folder's name has at most 255 bytes; `-0.`, 32 digits and `-future` take 42 of them."""
    name = "n" * length
    log = manager.create(name, TOPIC_ID, 0)
    (target,) = (d.path for d in manager.online_dirs if d.path != log.dir.parent)
    if length <= 255 - 42:
        manager.moves.move((name, 0), str(target))
        assert manager.moves.copies[name, 0].log.dir.exists()
        return
    with pytest.raises(LogError) as refused:
        manager.moves.move((name, 0), str(target))
    assert refused.value.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not manager.moves.copies


def test_copy_of_a_truncated_log_restarts_once(
    manager: LogManager,
    source: Log,
    elsewhere: Path,
    append: Append,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other records of the same length may have replaced those in the copy."""
    monkeypatch.setattr(moving, "COPY_BYTES", 1)
    for size in range(6):
        append(source, size=size)
    manager.moves.move(KEY, str(elsewhere))
    for _ in range(4):
        manager.moves.copy_some(KEY)
    truncate_to(source, 2, NOW_MS)
    for _ in range(4):
        append(source, size=9)
    ends = []
    for _ in range(7):
        manager.moves.copy_some(KEY)
        ends.append(manager.moves.copies[KEY].log.log_end_offset)
    assert ends == [1, 2, 3, 4, 5, 6, 6]
    served = source.segments.active.path.read_bytes()
    assert manager.moves.swap(KEY).segments.active.path.read_bytes() == served


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("step", ["make_folder", "write_checkpoint", "pwrite"])
def test_copy_survives_a_shortage_and_goes_offline_with_its_disk(
    manager: LogManager,
    source: Log,
    elsewhere: Path,
    append: Append,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    code: int,
) -> None:
    """After a lack of room the copy is unchanged; other errors take its directory offline."""
    append(source, 5)
    delete_records(source, 3, 5)
    moves = manager.moves
    target = moves.directory_at(str(elsewhere))

    begun = source

    def refuse(*_: object) -> None:
        raise OSError(code, "made up")

    def carry_out() -> None:
        nonlocal begun
        if KEY not in moves.copies:
            moves.move(KEY, str(elsewhere))
        begun = moves.copies[KEY].log
        while moves.copy_some(KEY):
            pass
        moves.swap(KEY)

    if step == "pwrite":
        moves.move(KEY, str(elsewhere))
    with monkeypatch.context() as broken:
        broken.setattr(manager.files if step == "pwrite" else target, step, refuse)
        with pytest.raises(LogError) as refused:
            carry_out()
    assert refused.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.logs[KEY] is source
    if code == errno.EIO:
        assert step == "make_folder" or begun.offline
        assert str(manager.offline_dirs.pop(elsewhere)) == "[Errno 5] made up"
        assert not moves.copies
        assert append(source).first_offset == 5
        return
    assert not manager.offline_dirs
    carry_out()
    assert manager.logs[KEY].dir == elsewhere / "t-0"
    assert manager.logs[KEY].log_start_offset == 3


@pytest.mark.parametrize(("start", "first"), [(1, 0), (2, 2), (4, 4), (6, 6), (7, 6)])
def test_copy_begins_at_the_batch_of_the_log_start(
    manager: LogManager, source: Log, elsewhere: Path, make_batch: MakeBatch, start: int, first: int
) -> None:
    """If compaction removed that batch, the copy begins at the log start."""
    for base in (0, 6):
        batch = make_batch(2, base_offset=base, partition_leader_epoch=0)
        append_as_follower(source, batch, leader_epoch=0, now_ms=NOW_MS)
    delete_records(source, start, 8)
    manager.moves.move(KEY, str(elsewhere))
    copy = manager.moves.copies[KEY].log
    assert copy.segments.first.base_offset == copy.log_end_offset == first
    while manager.moves.copy_some(KEY):
        pass
    log = manager.moves.swap(KEY)
    assert (log.log_start_offset, log.log_end_offset) == (start, 8)
