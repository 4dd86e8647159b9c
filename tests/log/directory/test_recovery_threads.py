"""Logs that are recovered at the same time, after an unclean stop."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kwire.log import LogManager
from kwire.log.directory.files import LOG, Files, OpenFile
from kwire.log.directory.loading import FoundLog, loaded
from kwire.log.directory.log_dir import partition_folder
from kwire.log.error import LogDirError, OtherTopic
from kwire.log.log import Log
from tests.log.configs import DEFAULTS
from tests.log.directory.conftest import TOPIC_ID, MakeManager, clock, kill, manager_of
from tests.log.directory.test_new_topic import OTHER_ID

if TYPE_CHECKING:
    from tests.log.conftest import Append

__all__ = ["clock", "manager_of"]  # fixtures

PATIENCE_S = 60
PARTITIONS = 12


def found(load: Callable[[], Any], number: int = 0) -> FoundLog:
    return FoundLog(("t", number), Path(f"t-{number}"), load)


def test_logs_are_loaded_by_as_many_threads_as_given() -> None:
    """Each load waits for another one, so one thread alone would wait for ever."""
    together = threading.Barrier(2)
    loads = [found(lambda: together.wait(PATIENCE_S), number) for number in range(4)]
    results = list(loaded(loads, 2))
    assert [each for each, _ in results] == loads
    assert sorted(cast(Any, result) for _, result in results) == [0, 0, 1, 1]


def test_one_thread_loads_each_log_before_the_next_is_found() -> None:
    seen: list[str] = []

    def find() -> Any:  # noqa: ANN401 - a generator of FoundLog
        for number in range(2):
            seen.append(f"found {number}")
            yield found(partial(seen.append, f"loaded {number}"), number)

    results = loaded(find(), 1)
    next(results)
    assert seen == ["found 0", "loaded 0"]
    next(results)
    assert seen == ["found 0", "loaded 0", "found 1", "loaded 1"]


@pytest.mark.parametrize("threads", [1, 2])
def test_first_failed_load_ends_the_loading(threads: int) -> None:
    """A folder of another topic is a result, and not an error."""

    def fail(error: Exception) -> None:
        raise error

    other = OtherTopic("by its id")
    loads = [
        found(lambda: fail(other), 0),
        found(lambda: fail(LogDirError("broken")), 1),
        found(lambda: None, 2),
    ]
    results = loaded(loads, threads)
    assert next(results) == (loads[0], other)
    with pytest.raises(LogDirError, match="broken"):
        next(results)
    assert list(results) == []


def state(log: Log) -> tuple[int, int, int, int, list[tuple[int, int]], int]:
    """What a recovery finds out about a log."""
    active = log.segments.active
    return (
        log.log_start_offset,
        log.log_end_offset,
        active.size_bytes,
        active.max_timestamp,
        log.epochs.entries,
        log.producers.end_offset,
    )


def test_recovery_by_several_threads_finds_what_one_thread_finds(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    """One log is cut, and one folder is of another topic than the metadata say."""
    written: LogManager = manager_of()
    for number in range(PARTITIONS):
        log = written.create("t", TOPIC_ID, number)
        for _ in range(number + 1):
            append(log, 3)
    kill(written)
    damaged = next((tmp_path / "a" / partition_folder("t", 5)).glob("*.log"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    states = []
    for name, threads in (("a", 1), ("b", 3)):
        manager = LogManager([tmp_path / name], defaults=DEFAULTS, recovery_threads=threads)
        ids = {"t": TOPIC_ID}
        manager.load(topic_id_of=ids.get)
        states.append({key: state(log) for key, log in manager.logs.items()})
        kill(manager)
    assert states[0] == states[1]
    assert list(states[1]) == list(states[0]), "they are served in the same order"
    assert states[1]["t", 4][1] == 15
    assert states[1]["t", 5][1] == 15
    assert states[1]["t", 6][1] == 21


def test_folders_of_another_topic_are_set_aside_by_several_threads(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    written: LogManager = manager_of()
    for number, topic_id in enumerate((TOPIC_ID, OTHER_ID, TOPIC_ID)):
        append(written.create("t", topic_id, number), 1)
    kill(written)
    manager = LogManager([tmp_path / "a"], defaults=DEFAULTS, recovery_threads=2)
    manager.load(topic_id_of={"t": TOPIC_ID}.get)
    assert set(manager.logs) == {("t", 0), ("t", 2)}
    assert len(list((tmp_path / "a").glob("t-1.*-stray"))) == 1
    kill(manager)


class BrokenDisk(Files):
    """A disk on which the log files of one directory cannot be opened."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def opened(self, path: Path | str, flags: int) -> OpenFile:
        if Path(path).is_relative_to(self.directory) and Path(path).suffix == LOG:
            raise OSError(errno.EIO, "the disk is broken")
        return super().opened(path, flags)


def test_directory_whose_recovery_fails_in_a_thread_goes_offline(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    written: LogManager = manager_of("a", "b")
    for number in range(4):
        append(written.create("t", TOPIC_ID, number), 1)
    kill(written)
    bad, good = tmp_path / "a", tmp_path / "b"
    manager = LogManager([bad, good], defaults=DEFAULTS, recovery_threads=2, files=BrokenDisk(bad))
    manager.load()
    assert list(manager.offline_dirs) == [bad]
    assert {log.dir.parent for log in manager.logs.values()} == {good}
    assert len(manager.logs) == 2
    kill(manager)
