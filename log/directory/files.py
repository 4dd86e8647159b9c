"""All system calls of the log engine on files, in one class that tests can replace.

Everything here is a plain blocking call.  `Files` holds no state: its methods may be called from
any thread as long as the file descriptors they are given stay open.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Kafka's suffixes (LogFileUtils)
LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
PRODUCER_SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}
_READ_WRITE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


def segment_file_name(base_offset: int, suffix: str) -> str:
    """`00000000000000000042.log`: 20 digits sort as numbers in any listing."""
    return f"{base_offset:020d}{suffix}"


def offset_of_file_name(name: str) -> int | None:
    """The offset at the start of a segment file's name; None for other names."""
    digits = name.partition(".")[0]
    return int(digits) if digits.isdecimal() and digits.isascii() else None


class OpenFile:
    """An open file descriptor, which is closed when its last reference is deleted.

    A `Region` handed to a connection holds a reference, so the bytes stay readable while they are
    being sent even when the segment is deleted or its file is closed for lack of descriptors.
    """

    __slots__ = ("_close", "fd")

    def __init__(self, fd: int, close: Callable[[int], None] = os.close) -> None:
        self.fd = fd
        self._close = close

    def fileno(self) -> int:
        return self.fd

    def __del__(self) -> None:
        with suppress(OSError):  # nobody can handle it; important data was flushed before
            self._close(self.fd)


class Files:
    """The real disk."""

    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)

    def opened(self, path: Path | str, flags: int) -> OpenFile:
        """Open a file or folder; all other functions open by this one."""
        return OpenFile(os.open(path, flags, 0o644))

    def open(self, path: Path | str) -> OpenFile:
        """Open for reading and writing, creating the file when it is not there."""
        return self.opened(path, _READ_WRITE)

    def open_existing(self, path: Path | str) -> OpenFile:
        """Open for reading and writing; FileNotFoundError when it is not there."""
        return self.opened(path, os.O_RDWR | os.O_CLOEXEC)

    def size(self, file: OpenFile) -> int:
        return os.fstat(file.fd).st_size

    def read(self, path: Path | str) -> bytes:
        """The whole file."""
        with open(path, "rb") as file:
            return file.read()

    def write(self, path: Path | str, data: bytes | bytearray, *, sync: bool = False) -> None:
        """Create or replace a file's content in place; not atomic."""
        file = self.opened(path, _READ_WRITE | os.O_TRUNC)
        self.write_all(file, data, 0)
        if sync:
            self.fsync(file.fd)

    def write_all(self, file: OpenFile, data: bytes | bytearray | memoryview, pos: int) -> None:
        """Write all of `data` at `pos`; a full disk shows as the OSError of the last try."""
        view = memoryview(data)
        while view:
            written = self.pwrite(file.fd, view, pos)
            view = view[written:]
            pos += written

    def replace(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Replace a small file atomically and durably.

        Write beside it, fsync, rename over it, fsync the folder: after a power cut there is the
        old content or the new one, never a mixture.  Kafka names the neighbour `<name>.tmp`.
        Without `sync` a power cut may leave an empty file; a killed process never does.
        """
        neighbour = f"{path}.tmp"
        self.write(neighbour, data, sync=sync)
        self.rename(neighbour, path)
        if sync:
            self.fsync_dir(path.parent)

    def rename(self, source: Path | str, target: Path | str) -> None:
        os.replace(source, target)

    def copy(self, source: Path | str, target: Path | str) -> None:
        """Copy a file."""
        shutil.copyfile(source, target)

    def share(self, source: Path | str, target: Path | str) -> None:
        """Give a file that no longer changes a second name (a hard link), or copy it.

        Where there are no hard links, or none across to `target`'s file system, or no more of one
        file.
        """
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            self.copy(source, target)

    def is_shared(self, file: OpenFile) -> bool:
        """Whether the file has other names (hard links), which see every write to it."""
        return os.fstat(file.fd).st_nlink > 1

    def remove(self, path: Path | str) -> None:
        """Remove a file; it is no error when it is gone already."""
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: Path) -> None:
        """Remove a folder with its content; errors are ignored."""
        shutil.rmtree(path, ignore_errors=True)

    def make_folder(self, path: Path) -> None:
        """Make a folder in an existing one; does nothing if it exists already."""
        path.mkdir(exist_ok=True)

    def open_folder(self, path: Path | str) -> OpenFile:
        """Open a folder, whose fsync makes the names in it durable."""
        return self.opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def fsync_dir(self, path: Path | str) -> None:
        """Make the names in a folder durable."""
        folder = self.open_folder(path)
        self.fsync(folder.fd)


class FleetingFiles(Files):
    """The disk, of which nothing is wanted any more once the machine is off.

    Nobody waits for it to be written; a process that is killed loses nothing all the same.
    """

    @staticmethod
    def fsync(fd: object) -> None:
        """Do nothing: the system decides when it writes."""
