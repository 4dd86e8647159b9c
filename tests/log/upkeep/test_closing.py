"""A clean stop flushes many logs in parallel, on a limited number of threads."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.log import Log, LogManager
from kwire.log.directory.files import Files
from tests.descriptors import path_of
from tests.log.configs import DEFAULTS
from tests.log.failing_disk import FailingDisk

if TYPE_CHECKING:
    from kwire.log.upkeep.flush import Flush
    from tests.log.conftest import Append

NOW_MS = 1_700_000_000_000
TOPIC_ID = b"0123456789abcdef"
THREADS = 3
WAIT_S = 240.0

Opened = Callable[[Files], LogManager]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A manager of one directory that closes `THREADS` logs at a time."""
    made: list[LogManager] = []

    def make(files: Files) -> LogManager:
        manager = LogManager(
            [tmp_path],
            defaults=DEFAULTS,
            files=files,
            clock=lambda: NOW_MS,
            closing_threads_max=THREADS,
        )
        made.append(manager)
        manager.identify(1, "cluster")
        manager.load()
        return manager

    yield make
    for manager in made:
        for directory in manager.online_dirs:
            directory.unlock()


def fill(manager: LogManager, append: Append, partitions: int) -> None:
    for index in range(partitions):
        append(manager.create("t", TOPIC_ID, index))


class Meeting(Files):
    """Lets fsyncs of `.log` files continue in groups only; a single one waits until it fails."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(THREADS, timeout=WAIT_S)
        self.most = self.under_way = 0
        self._lock = threading.Lock()

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # a plain function there
        if path_of(fd).endswith(".log"):
            with self._lock:
                self.under_way += 1
                self.most = max(self.most, self.under_way)
            self.barrier.wait()
            with self._lock:
                self.under_way -= 1
        super().fsync(fd)


def test_stop_flushes_one_log_per_thread_at_a_time(opened: Opened, append: Append) -> None:
    disk = Meeting()
    manager = opened(disk)
    fill(manager, append, 3 * THREADS)
    manager.close()
    assert disk.most == THREADS
    assert opened(Files()).logs["t", 0].recovery_point == 1


def test_stop_prepares_at_most_one_flush_per_thread(
    opened: Opened, append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prepared flush holds files open."""
    manager = opened(Files())
    fill(manager, append, 3 * THREADS)
    ready = most = 0
    prepare_close, flushed = Log.prepare_close, Log.flushed

    def prepare(log: Log) -> Flush | None:
        nonlocal ready, most
        ready += 1
        most = max(most, ready)
        return prepare_close(log)

    def finish(log: Log, flush: Flush) -> None:
        nonlocal ready
        ready -= 1
        flushed(log, flush)

    monkeypatch.setattr(Log, "prepare_close", prepare)
    monkeypatch.setattr(Log, "flushed", finish)
    manager.close()
    assert most == THREADS


class Recording(Files):
    """Records which paths were made durable or renamed, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # a plain function there
        super().fsync(fd)
        self.done.append(path_of(fd))

    def rename(self, source: Path | str, target: Path | str) -> None:
        super().rename(source, target)
        self.done.append(f"-> {target}")


def test_stop_writes_checkpoints_after_all_logs_are_durable(
    opened: Opened, append: Append, tmp_path: Path
) -> None:
    disk = Recording()
    manager = opened(disk)
    fill(manager, append, 2 * THREADS)
    disk.done.clear()
    manager.close()
    checkpoint = disk.done.index(f"-> {tmp_path / 'recovery-point-offset-checkpoint'}")
    assert disk.done.index(str(tmp_path)) < checkpoint, "the folders' names"
    for index in range(2 * THREADS):
        folder = str(tmp_path / f"t-{index}")
        of_partition = [at for at, name in enumerate(disk.done) if name.startswith(folder)]
        names = {Path(disk.done[at]).suffix for at in of_partition}
        assert {".log", ".timeindex", ".snapshot"} <= names
        assert disk.done[of_partition[-1]] == folder, "its names come last"
        assert of_partition[-1] < checkpoint


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_stop_with_a_failed_flush_is_not_marked_clean(
    code: int, opened: Opened, append: Append, tmp_path: Path
) -> None:
    disk = FailingDisk("/t-2/", "fsync", code=code)
    manager = opened(disk)
    fill(manager, append, 2 * THREADS)
    disk.broken = True
    manager.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert list(manager.offline_dirs) == [tmp_path], "a failed fsync is a disk failure at any errno"
    disk.broken = False
    again = opened(disk)
    assert [log.log_end_offset for log in again.logs.values()] == [1] * 2 * THREADS


def test_stop_does_not_flush_a_durable_log(opened: Opened, append: Append) -> None:
    manager = opened(Files())
    fill(manager, append, 1)
    (log,) = manager.logs.values()
    log.close()
    assert log.prepare_close() is None
