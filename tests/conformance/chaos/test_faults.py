"""Tests that the limits on descriptors and disk space apply to a process, and can be undone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.conformance.chaos.disk import Disk, FileSizeLimit, Tmpfs, disk_at
from kwire.conformance.chaos.subject import ChaosSubject

WORKER = """
import sys
for line in sys.stdin:
    name, _, size = line.partition(" ")
    try:
        with open(name, "ab", buffering=0) as file:
            answer = file.write(bytes(int(size)))
    except OSError as error:
        answer = -error.errno
    print(answer, flush=True)
"""


class Worker:
    """A process that appends to files; `append` returns the bytes written, or minus the errno."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.append("ready.log", 8000)

    def append(self, name: str, size: int) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{self._directory / name} {size}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    started = Worker(tmp_path)
    yield started
    with started.process:
        started.process.terminate()


def test_process_with_limited_descriptors_opens_no_more_files(
    worker: Worker, tmp_path: Path
) -> None:
    subject = ChaosSubject([], ("127.0.0.1", 0), tmp_path, tmp_path / "log", process=worker.process)
    undo = subject.limit_descriptors(0)
    assert worker.append("a", 1) == -errno.EMFILE
    undo()
    assert worker.append("a", 1) == 1
    undo = subject.limit_descriptors(1)
    assert worker.append("a", 1) == 1
    undo()


def test_file_size_limit_stops_growth_until_it_is_undone(worker: Worker, tmp_path: Path) -> None:
    undo = FileSizeLimit(tmp_path).fill(worker.process.pid, 100)
    assert worker.append("ready.log", 1) == -errno.EFBIG
    assert worker.append("new.log", 5000) == 4100, "half of the largest file, and the room"
    undo()
    assert worker.append("ready.log", 1) == 1


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Disk, Path]]:
    directory = tmp_path / "disk"
    directory.mkdir()
    with disk_at(directory) as mounted:
        yield mounted, directory
    assert not os.path.ismount(directory)


def test_full_tmpfs_refuses_writes_until_it_is_emptied(disk: tuple[Disk, Path]) -> None:
    tmpfs, directory = disk
    if not isinstance(tmpfs, Tmpfs):
        pytest.skip("this user may not mount")
    path = directory / "file"
    path.write_bytes(b"before")
    undo = tmpfs.fill(os.getpid(), 0)
    with pytest.raises(OSError, match="No space left"), open(directory / "more", "wb") as file:
        file.write(b"x" * 100_000)
    undo()
    path.write_bytes(b"x" * 100_000)
    undo = tmpfs.fill(os.getpid(), 1_000_000)
    path.write_bytes(b"x" * 900_000)
    undo()
