"""A data disk for a broker that can be filled up to a few bytes and emptied again.

With the right to mount, it is a small tmpfs; a write to it fails with ENOSPC, as on a full disk.
Without, it is a limit on the size of the broker's files (RLIMIT_FSIZE); a write fails with EFBIG,
but only in files that grow beyond the limit, and small new files still have room. Rounds report
which one they used. A broker that does not ignore SIGXFSZ is killed by the limit; CPython ignores
it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE_BYTES = 64 << 20
"""More than any round writes, so that the disk is full only if a fault fills it."""
BALLAST = ".ballast"
"""A file, which brokers do not take for the folder of a partition."""


class Disk(ABC):
    """The disk of a broker's data folder."""

    name: str

    @abstractmethod
    def fill(self, pid: int, room_bytes: int) -> Callable[[], None]:
        """Leave `room_bytes` free; returns the function that undoes it."""


class Tmpfs(Disk):
    name = "tmpfs"

    def __init__(self, directory: Path) -> None:
        self._ballast = directory / BALLAST

    def fill(self, pid: int, room_bytes: int) -> Callable[[], None]:
        """Leave `room_bytes` free on the disk, with a file of ballast; return how to remove it."""
        fd = os.open(self._ballast, os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            while (size := self._free_bytes() - room_bytes) > 0:
                with contextlib.suppress(OSError):  # the broker has written meanwhile: less is free
                    os.posix_fallocate(fd, os.fstat(fd).st_size, size)
        finally:
            os.close(fd)
        return lambda: self._ballast.unlink(missing_ok=True)

    def _free_bytes(self) -> int:
        state = os.statvfs(self._ballast.parent)
        return state.f_bavail * state.f_frsize


class FileSizeLimit(Disk):
    name = "file size limit"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def fill(self, pid: int, room_bytes: int) -> Callable[[], None]:
        """Limit the size of the broker's files; return how to lift the limit.

        Half of the largest log is below its present size, so that the next append to it fails.
        """
        sizes = [path.stat().st_size for path in self._directory.rglob("*.log")]
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        limit = max(sizes, default=0) // 2 + room_bytes
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, before[1]))

        def undo() -> None:
            with contextlib.suppress(ProcessLookupError):  # the process has ended
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

        return undo


@contextmanager
def disk_at(directory: Path) -> Iterator[Disk]:
    """Yield the best kind of disk that this user may use, mounted at `directory` if it is a
    tmpfs."""
    options = ["-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "kwire-chaos", str(directory)]
    mounted = os.geteuid() == 0 and _succeeds(["mount", *options])
    if not mounted:
        yield FileSizeLimit(directory)
        return
    try:
        yield Tmpfs(directory)
    finally:
        _succeeds(["umount", "--lazy", str(directory)])


def _succeeds(command: list[str]) -> bool:
    """Return whether the command exists and exits with status 0."""
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
