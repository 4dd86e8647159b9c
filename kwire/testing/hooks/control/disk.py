"""The calls that a broker's logs make, where a test may have its disk full, slow or broken.

They are those of kwire.log.directory.files, each asked about first; where no rule is about it, it
is the same call.  The cleaner of compacted topics is a process of its own, whose calls are not
asked about.
"""

from __future__ import annotations

import os
import time
from pathlib import Path, PurePath
from threading import Lock
from typing import TYPE_CHECKING

from kwire.log.directory.files import Files, OpenFile
from kwire.testing.hooks.faults.disk import ERRNOS, Call, Disk, OfDisk, touched

if TYPE_CHECKING:
    from kwire.codecs.primitives import Buffer
    from kwire.testing.hooks.faults.machine import Faults


Place = tuple[str, str]
"""A file's folder and the file, by their names; a folder has no folder here.  What was not opened
by these calls has no place, and is never asked about."""


class ControlledFiles(Files):
    """See the module.  As of `Files`, its methods may be called from any thread."""

    def __init__(self, faults: Faults, below: Files) -> None:
        """`below` is the disk where nothing befalls it."""
        self._faults = faults
        self._below = below
        self._places: dict[int, Place] = {}
        """Of each open file, by its descriptor."""
        self._asking = Lock()

    def opened(self, path: Path | str, flags: int) -> OpenFile:
        pure = PurePath(path)
        place = ("" if flags & os.O_DIRECTORY else pure.parent.name), pure.name
        if flags & os.O_CREAT and self._faults and not os.path.lexists(path):
            self._check(Call.CREATE, place)
        found = OpenFile(os.open(path, flags, 0o644), self._close)
        self._places[found.fd] = place
        return found

    def _close(self, fd: int) -> None:
        """The next file that is opened may have its number."""
        self._places.pop(fd, None)
        os.close(fd)

    def make_folder(self, path: Path) -> None:
        if self._faults and not path.exists():
            self._check(Call.CREATE, ("", path.name))
        super().make_folder(path)

    def pwrite(  # type: ignore[override]  # a plain function there
        self, fd: int, data: Buffer, pos: int
    ) -> int:
        place = self._places.get(fd)
        wrong = self._asked(Call.WRITE, place)
        if wrong is not None and place is not None:
            if wrong.disk is Disk.FULL:
                Files.pwrite(fd, memoryview(data)[: len(data) // 2], pos)
            _fail(wrong, place)
        return Files.pwrite(fd, data, pos)

    def pread(self, fd: int, size: int, pos: int) -> bytes:
        self._check(Call.READ, self._places.get(fd))
        return Files.pread(fd, size, pos)

    def read(self, path: Path | str) -> bytes:
        self._check(Call.READ, (Path(path).parent.name, Path(path).name))
        return super().read(path)

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # as above
        self._check(Call.FSYNC, self._places.get(fd))
        self._below.fsync(fd)

    def _check(self, call: Call, place: Place | None) -> None:
        """Raises OSError where that is what the call meets."""
        wrong = self._asked(call, place)
        if wrong is not None and place is not None:
            _fail(wrong, place)

    def _asked(self, call: Call, place: Place | None) -> OfDisk | None:
        if not self._faults or place is None:
            return None
        with self._asking:
            return self._faults.touch(touched(call, *place))


def _fail(wrong: OfDisk, place: Place) -> None:
    """Take long, or raise what the system would: OSError."""
    if wrong.disk is Disk.SLOW:
        time.sleep(wrong.delay_ms / 1000)
        return
    code = ERRNOS[wrong.disk]
    raise OSError(code, os.strerror(code), "/".join(filter(None, place)))
