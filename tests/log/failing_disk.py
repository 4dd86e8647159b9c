"""A disk that fails on request."""

from __future__ import annotations

import errno
from pathlib import Path

from kwire.codecs.primitives import Buffer
from kwire.log.directory.files import Files, OpenFile
from tests.descriptors import path_of


class FailingDisk(Files):
    """Fails for paths that contain `word`, in the calls named in `calls`, once it is `broken`."""

    def __init__(self, word: str, *calls: str, code: int = errno.EIO) -> None:
        self.word = word
        self.calls = calls
        self.error = OSError(code, "made up")
        self.broken = False

    def _check(self, call: str, path: str) -> None:
        if self.broken and call in self.calls and self.word in path:
            raise self.error

    def open(self, path: Path | str) -> OpenFile:
        self._check("open", str(path))
        return super().open(path)

    def pwrite(  # type: ignore[override]  # a plain function there
        self, fd: int, data: Buffer, pos: int
    ) -> int:
        if self.broken and "short write" in self.calls and self.word in path_of(fd):
            if len(data) > 10:
                return Files.pwrite(fd, memoryview(data)[:10], pos)
            raise self.error
        self._check("pwrite", path_of(fd))
        return Files.pwrite(fd, data, pos)

    def open_folder(self, path: Path | str) -> OpenFile:
        self._check("open_folder", f"{path}/")
        return super().open_folder(path)

    def write(self, path: Path | str, data: bytes | bytearray, *, sync: bool = False) -> None:
        self._check("write", str(path))
        super().write(path, data, sync=sync)

    def read(self, path: Path | str) -> bytes:
        self._check("read", str(path))
        return super().read(path)

    def pread(self, fd: int, size: int, pos: int) -> bytes:
        self._check("pread", path_of(fd))
        return Files.pread(fd, size, pos)

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # a plain function there
        self._check("fsync", path_of(fd))
        Files.fsync(fd)

    def rename(self, source: Path | str, target: Path | str) -> None:
        self._check("rename", str(source))
        super().rename(source, target)


class PiecemealDisk(Files):
    """Takes at most `piece_bytes` of a write at a time, as a disk or a signal may cause."""

    def __init__(self, piece_bytes: int) -> None:
        self.piece_bytes = piece_bytes

    def pwrite(  # type: ignore[override]  # a plain function there
        self, fd: int, data: Buffer, pos: int
    ) -> int:
        return Files.pwrite(fd, memoryview(data)[: self.piece_bytes], pos)
