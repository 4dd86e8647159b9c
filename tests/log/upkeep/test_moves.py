"""Moves of a partition to another log directory, with crashes and lost disks."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.log import Log, LogError, LogManager, delete_records, truncate_to
from kwire.log.directory import log_dir
from kwire.log.directory.files import Files
from kwire.log.upkeep import moving
from tests.descriptors import open_files
from tests.log.configs import DEFAULTS
from tests.log.directory.conftest import NOW_MS, TOPIC_ID, kill
from tests.log.directory.test_new_topic import OTHER_ID
from tests.log.failing_disk import FailingDisk

if TYPE_CHECKING:
    from tests.log.conftest import Append

KEY = "t", 0

Open = Callable[..., LogManager]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """opened(): a manager of the directories `a` and `b`, which knows the topic's id."""
    made: list[LogManager] = []

    def open_them(
        topic_id: bytes = TOPIC_ID, *names: str, files: Files | None = None
    ) -> LogManager:
        paths = [tmp_path / name for name in names or ("a", "b")]
        manager = LogManager(paths, defaults=DEFAULTS, clock=lambda: NOW_MS, files=files)
        made.append(manager)
        manager.load(None, {"t": topic_id}.get)
        return manager

    yield open_them
    for manager in made:
        kill(manager)


def copy_all(manager: LogManager) -> None:
    while manager.moves.copy_some(KEY):
        pass


def move(manager: LogManager, path: Path) -> Log:
    manager.moves.move(KEY, str(path))
    copy_all(manager)
    return manager.moves.swap(KEY)


def test_checkpoint_lines_of_an_earlier_stay_are_ignored(
    opened: Open, append: Append, tmp_path: Path
) -> None:
    manager = opened()
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 10)
    delete_records(log, 8, 10)
    manager.close()
    manager = opened()
    log = manager.logs[KEY]
    old, new = log.dir.parent, next(d.path for d in manager.online_dirs if d.path != log.dir.parent)
    move(manager, new)
    manager.delete(*KEY)
    append(manager.create("t", OTHER_ID, 0), 5)  # in the directory of the first log
    here = manager.logs[KEY].dir.parent
    move(manager, new if here == old else old)
    kill(manager)
    log = opened(OTHER_ID).logs[KEY]
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 5, 0)


def test_refused_batch_is_still_awaited_after_a_move(
    opened: Open, append: Append, tmp_path: Path
) -> None:
    disk = FailingDisk("/")
    manager = opened(files=disk)
    log = manager.create("t", TOPIC_ID, 0)
    append(log, producer_id=7, producer_epoch=0, base_sequence=0)
    disk.calls, disk.error, disk.broken = ("pwrite",), OSError(errno.ENOSPC, "made up"), True
    with pytest.raises(LogError):
        append(log, producer_id=7, producer_epoch=0, base_sequence=1)
    disk.broken = False
    there = "b" if log.dir.parent.name == "a" else "a"
    moved = move(manager, tmp_path / there)
    with pytest.raises(LogError) as caught:
        append(moved, producer_id=7, producer_epoch=0, base_sequence=2)
    assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    for sequence in (1, 2):
        append(moved, producer_id=7, producer_epoch=0, base_sequence=sequence)


def test_move_keeps_the_log_start_offset(opened: Open, append: Append, tmp_path: Path) -> None:
    manager = opened()
    append(manager.create("t", TOPIC_ID, 0), 10)
    delete_records(manager.logs[KEY], 3, 10)
    manager.close()
    manager = opened()
    (target,) = (d.path for d in manager.online_dirs if d.path != manager.logs[KEY].dir.parent)
    manager.moves.move(KEY, str(target))
    copy_all(manager)
    delete_records(manager.logs[KEY], 8, 10)
    manager.moves.swap(KEY)
    kill(manager)
    assert opened().logs[KEY].log_start_offset == 8


class TestTheNextStart:
    @pytest.fixture
    def half_way(self, opened: Open, append: Append) -> LogManager:
        """A copy with all ten records, not served yet."""
        manager = opened()
        append(manager.create("t", TOPIC_ID, 0), 10)
        (target,) = (d.path for d in manager.online_dirs if d.path != manager.logs[KEY].dir.parent)
        manager.moves.move(KEY, str(target))
        copy_all(manager)
        return manager

    def test_restart_continues_a_copy(self, half_way: LogManager, opened: Open) -> None:
        kill(half_way)
        again = opened()
        assert again.moves.copies[KEY].log.log_end_offset == 10

    @pytest.mark.parametrize("spoilt", [None, ""])
    def test_restart_copies_again_without_a_durable_topic_id(
        self, spoilt: str | None, half_way: LogManager, opened: Open
    ) -> None:
        """The first flush makes the topic id durable; an earlier power cut may lose it."""
        metadata = half_way.moves.copies[KEY].log.dir / "partition.metadata"
        kill(half_way)
        metadata.unlink() if spoilt is None else metadata.write_text(spoilt)
        again = opened()
        assert again.moves.copies[KEY].log.log_end_offset == 0
        assert move(again, again.moves.copies[KEY].directory.path).log_end_offset == 10

    def test_restart_removes_a_copy_of_a_deleted_topic(
        self, half_way: LogManager, opened: Open, append: Append
    ) -> None:
        copy = half_way.moves.copies[KEY]
        half_way.dirs.dir_failed(copy.directory, OSError(5, "made up"))
        half_way.delete(*KEY)
        append(half_way.create("t", OTHER_ID, 0), 3)
        kill(half_way)
        again = opened(OTHER_ID)
        assert not again.moves.copies
        assert not copy.log.dir.exists()
        assert again.logs[KEY].log_end_offset == 3

    def test_restart_copies_again_if_the_log_has_diverged(
        self, half_way: LogManager, opened: Open, append: Append
    ) -> None:
        """A power cut took the log's end, and records were appended while the copy was offline."""
        copy, log = half_way.moves.copies[KEY], half_way.logs[KEY]
        half_way.dirs.dir_failed(copy.directory, OSError(5, "made up"))
        truncate_to(log, 5, NOW_MS)
        append(log, 10, size=5)
        append(log, 10)
        kill(half_way)
        again = opened()
        assert again.moves.copies[KEY].log.log_end_offset == 0

    def test_restart_copies_again_if_the_last_record_differs(
        self, half_way: LogManager, opened: Open, append: Append
    ) -> None:
        """Only the last record differs."""
        log, directory = half_way.logs[KEY], half_way.moves.copies[KEY].directory
        append(log, 1)
        copy_all(half_way)
        half_way.dirs.dir_failed(directory, OSError(5, "made up"))
        truncate_to(log, 10, NOW_MS)
        append(log, 1, size=5)
        kill(half_way)
        assert opened().moves.copies[KEY].log.log_end_offset == 0

    def test_restart_keeps_a_copy_beside_a_folder_to_delete(
        self, half_way: LogManager, opened: Open
    ) -> None:
        """The folder to delete has the same unique id; the log to copy exists too."""
        copy, source = half_way.moves.copies[KEY], half_way.logs[KEY]
        kill(half_way)
        twin = log_dir.delete_folder(*KEY, copy.unique)
        (copy.directory.path / twin).mkdir()
        again = opened()
        assert again.logs[KEY].dir == source.dir
        assert again.moves.copies[KEY].log.dir == copy.log.dir

    def test_restart_copies_again_if_the_copy_is_longer_than_the_log(
        self, half_way: LogManager, opened: Open
    ) -> None:
        truncate_to(half_way.logs[KEY], 5, NOW_MS)
        kill(half_way)
        assert opened().moves.copies[KEY].log.log_end_offset == 0

    def test_restart_serves_the_copy_if_the_log_is_missing(
        self, half_way: LogManager, opened: Open
    ) -> None:
        """The swap had begun, and the old folder was already removed."""
        source, copy = half_way.logs[KEY], half_way.moves.copies[KEY]
        copy.log.flush()
        kill(half_way)
        shutil.rmtree(source.dir)
        elsewhere = opened(OTHER_ID)
        assert not elsewhere.logs, "it is of another topic"
        kill(elsewhere)
        again = opened()
        assert again.logs[KEY].dir == copy.directory.path / "t-0"
        assert again.logs[KEY].log_end_offset == 10

    def test_restart_leaves_a_copy_alone_while_a_disk_is_missing(
        self, half_way: LogManager, opened: Open, tmp_path: Path
    ) -> None:
        source, copy = half_way.logs[KEY], half_way.moves.copies[KEY]
        away, kept = source.dir.parent, tmp_path / "kept"
        kill(half_way)
        away.rename(kept)
        away.write_text("no folder")
        again = opened()
        assert not again.logs
        assert copy.log.dir.exists()
        kill(again)
        away.unlink()
        kept.rename(away)
        assert opened().logs[KEY].dir == source.dir


def test_swap_that_fails_half_way_is_finished_by_the_next_start(
    opened: Open, append: Append, tmp_path: Path
) -> None:
    """The old folder stays until the copy has its name."""

    class NoName(Files):
        def rename(self, source: Path | str, target: Path | str) -> None:
            if Path(source).name.endswith("-future"):
                raise OSError(28, "made up")
            super().rename(source, target)

    manager = opened(files=NoName())
    append(manager.create("t", TOPIC_ID, 0), 10)
    for number in range(12):  # in any order
        manager.create(f"other{number}", bytes([number + 1]) * 16, 0)
    (target,) = (d.path for d in manager.online_dirs if d.path != manager.logs[KEY].dir.parent)
    with pytest.raises(LogError):
        move(manager, target)
    assert not manager.maintenance.deleted
    kill(manager)
    (tmp_path / "c").write_text("no folder, so a disk that is away")
    log = opened(TOPIC_ID, "a", "b", "c").logs[KEY]
    assert (log.dir, log.log_end_offset) == (target / "t-0", 10)


def test_copy_in_pieces_has_the_bytes_of_the_log(
    opened: Open, append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "COPY_BYTES", 200)
    manager = opened()
    log = manager.create("t", TOPIC_ID, 0)
    for _ in range(20):
        append(log)
    held = log.segments.active.path.read_bytes()
    (target,) = (d.path for d in manager.online_dirs if d.path != log.dir.parent)
    moved = move(manager, target)
    assert (moved.log_start_offset, moved.log_end_offset) == (0, 20)
    assert moved.segments.active.path.read_bytes() == held


def test_cancelled_copy_is_closed_and_refuses_appends(opened: Open, append: Append) -> None:
    manager = opened()
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 3)
    elsewhere = next(d.path for d in manager.online_dirs if d.path != log.dir.parent)
    manager.moves.move(KEY, str(elsewhere))
    copy_all(manager)
    copy = manager.moves.copies[KEY].log
    assert copy.log_end_offset == 3
    manager.moves.cancel(KEY)
    with pytest.raises(LogError):
        append(copy)
    assert not [path for path in open_files() if path.startswith(f"{elsewhere}/t-")]
    assert append(log).first_offset == 3


def test_log_start_offset_is_checkpointed_only_once_flushed(opened: Open, append: Append) -> None:
    """Otherwise a line above the log end could not be distinguished from one of another log."""
    manager = opened()
    log = manager.create("t", TOPIC_ID, 0, DEFAULTS)
    append(log, 10)
    delete_records(log, 8, 10)
    jobs = manager.maintain(NOW_MS + 60_000)
    assert [job.what.split()[0] for job in jobs].count("flush") == 1
    (directory,) = (d for d in manager.online_dirs if d.path == log.dir.parent)
    assert manager.maintenance.lines(directory, "log-start-offset-checkpoint") == {}
    for job in jobs:
        job.run()
        job.finish()
    assert manager.maintenance.lines(directory, "log-start-offset-checkpoint") == {KEY: 8}
