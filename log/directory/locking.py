"""The lock of a data folder: a POSIX lock on its `.lock`, as Apache Kafka's brokers take it.

A broker locks each of its log directories.  The process that keeps the metadata for `kwire serve
--brokers` or `kwire cluster up` locks the folder with the brokers' folders.  The kernel releases a
lock when the process ends, in whatever way.

A POSIX lock excludes other processes only, so `_locked_here` has the folders that this process has
locked.  A forked child holds none of its parent's locks.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.log.error import LogDirLocked

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile

LOCK: Final = ".lock"

_locked_here: dict[Path, int] = {}
"""The folders that this process has locked, with its id: a forked child has no locks."""


class FolderLock:
    """The lock of the folder `path`, from `acquire` until `release`."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._file: OpenFile | None = None
        self._real_path = path

    def acquire(self) -> None:
        """Lock the existing folder.  Raises LogDirLocked, OSError."""
        self._real_path = self._path.resolve()
        if _locked_here.get(self._real_path) == os.getpid():
            raise LogDirLocked(_refusal(self._path, os.getpid()))
        file = self._files.open(self._path / LOCK)
        try:
            fcntl.lockf(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise LogDirLocked(_refusal(self._path, holder_of(file.fd))) from error
        _locked_here[self._real_path] = os.getpid()
        self._file = file

    def release(self) -> None:
        """Release the lock.  The file stays, because its removal would be a race."""
        if self._file is not None:
            self._file = None
            _locked_here.pop(self._real_path, None)


def holder_of(descriptor: int) -> int | None:
    """Return the id of the process that holds the lock on this open file.

    None if it cannot be known: it was released meanwhile, or its holder is in another PID
    namespace or on another machine.
    """
    if sys.platform == "linux":  # struct flock: type, whence, start, len, pid
        query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    elif sys.platform == "darwin":  # struct flock: start, len, pid, type, whence
        query = struct.pack("qqihh", 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
        _, _, pid, kind, _ = struct.unpack("qqihh", fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    else:
        return None
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None


def _refusal(path: Path, pid: int | None) -> str:
    holder = "another process" if pid is None else f"process {pid}"
    return (
        f"{path} is in use: {holder} holds the lock on {path / LOCK}. Two brokers cannot share a "
        "data folder; stop that process, or use another folder (log.dirs, --data)."
    )
