"""What open file descriptors are of."""

from __future__ import annotations

import contextlib
import fcntl
import os


def path_of(fd: int) -> str:
    """The file's path, as Linux and macOS tell it."""
    if hasattr(fcntl, "F_GETPATH"):
        found: bytes = fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024))
        return os.fsdecode(found.rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{fd}")


def open_files() -> list[str]:
    """The paths of what this process has open, as far as they have one."""
    paths = []
    for fd in map(int, os.listdir("/dev/fd")):
        with contextlib.suppress(OSError):
            paths.append(path_of(fd))
    return paths
