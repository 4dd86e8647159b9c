"""A disk for a broker that can be filled up to a few bytes, and emptied again.

Who may mount gets a small tmpfs: then the system answers ENOSPC, as a full disk does. Who may not
gets a limit on the size of the running process' files (RLIMIT_FSIZE): the broker is told EFBIG, and
only for the files that are to grow beyond it; small new files still find room. Rounds say which it
was. A broker that does not ignore SIGXFSZ is killed by the second way; CPython ignores it.
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
"""More than any round writes: it is full only when it is made so."""
BALLAST = ".ballast"
"""Not a name that a broker takes for a partition's folder: it is a file."""


class Disk(ABC):
    """Where a broker's data is."""

    name: str

    @abstractmethod
    def fill(self, pid: int, room_bytes: int) -> Callable[[], None]:
        """Leave `room_bytes` of room; gives the undoing."""


class Tmpfs(Disk):
    name = "tmpfs"

    def __init__(self, directory: Path) -> None:
        self._ballast = directory / BALLAST

    def fill(self, pid: int, room_bytes: int) -> Callable[[], None]:
        fd = os.open(self._ballast, os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            while (size := self._free_bytes() - room_bytes) > 0:
                with contextlib.suppress(OSError):  # the broker was faster: less is free now
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
        sizes = [path.stat().st_size for path in self._directory.rglob("*.log")]
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        limit = max(sizes, default=0) // 2 + room_bytes
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, before[1]))

        def undo() -> None:
            with contextlib.suppress(ProcessLookupError):  # it ended, and its limits with it
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

        return undo


@contextmanager
def disk_at(directory: Path) -> Iterator[Disk]:
    """The best kind of disk that this user may have, mounted at `directory` if it can be."""
    options = ["-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "kwire-chaos", str(directory)]
    mounted = os.geteuid() == 0 and _done(["mount", *options])
    if not mounted:
        yield FileSizeLimit(directory)
        return
    try:
        yield Tmpfs(directory)
    finally:
        _done(["umount", "--lazy", str(directory)])


def _done(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
