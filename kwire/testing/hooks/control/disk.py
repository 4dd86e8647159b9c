"""File operations of a broker's logs into which a test can inject disk faults.

They replace those of kwire.log.directory.files.  Each one first asks the fault rules, and is the
plain operation if no rule applies.  No faults are injected into the cleaner of compacted topics,
which runs in a process of its own.
"""

from __future__ import annotations

import os
import time
from pathlib import Path, PurePath
from threading import Lock
from typing import TYPE_CHECKING

from kwire.log.directory.files import Files, OpenFile
from kwire.testing.hooks.faults.disk import ERRNOS, DiskAction, DiskFault, SystemCall, log_call

if TYPE_CHECKING:
    from kwire.codecs.primitives import Buffer
    from kwire.testing.hooks.faults.machine import FaultMachine


Place = tuple[str, str]
"""The names of a file's folder and of the file; the first is empty for a folder.  A file that was
not opened by these operations has no place, and no faults are injected into its operations."""


class ControlledFiles(Files):
    """File operations with faults; as of `Files`, its methods may be called from any thread."""

    def __init__(self, faults: FaultMachine, below: Files) -> None:
        """`below` has the plain operations."""
        self._faults = faults
        self._below = below
        self._places: dict[int, Place] = {}
        """Place of each open file, by file descriptor."""
        self._deciding = Lock()

    def opened(self, path: Path | str, flags: int) -> OpenFile:
        """Opens a file as os.open does.  Raises the injected OSError if the call creates the file
        and a rule about creating files matches it."""
        pure = PurePath(path)
        place = ("" if flags & os.O_DIRECTORY else pure.parent.name), pure.name
        if flags & os.O_CREAT and self._faults and not os.path.lexists(path):
            self._check(SystemCall.CREATE, place)
        file = OpenFile(os.open(path, flags, 0o644), self._close)
        self._places[file.fd] = place
        return file

    def _close(self, fd: int) -> None:
        """Close a file, and first forget its place: the next open file may reuse the descriptor."""
        self._places.pop(fd, None)
        os.close(fd)

    def make_folder(self, path: Path) -> None:
        if self._faults and not path.exists():
            self._check(SystemCall.CREATE, ("", path.name))
        super().make_folder(path)

    def pwrite(  # type: ignore[override]  # a plain function there
        self, fd: int, data: Buffer, pos: int
    ) -> int:
        """Writes to a file as os.pwrite does, or raises the OSError that a rule injects.  With a
        full disk, the first half of the data is written before the error."""
        place = self._places.get(fd)
        action = self._decide(SystemCall.WRITE, place)
        if action is not None and place is not None:
            if action.disk is DiskFault.FULL:  # as on a real full disk, half is written
                Files.pwrite(fd, memoryview(data)[: len(data) // 2], pos)
            _inject(action, place)
        return Files.pwrite(fd, data, pos)

    def pread(self, fd: int, size: int, pos: int) -> bytes:
        self._check(SystemCall.READ, self._places.get(fd))
        return Files.pread(fd, size, pos)

    def read(self, path: Path | str) -> bytes:
        self._check(SystemCall.READ, (Path(path).parent.name, Path(path).name))
        return super().read(path)

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # as above
        self._check(SystemCall.FSYNC, self._places.get(fd))
        self._below.fsync(fd)

    def _check(self, call: SystemCall, place: Place | None) -> None:
        """Inject a fault if a rule says so: raises OSError, or waits."""
        action = self._decide(call, place)
        if action is not None and place is not None:
            _inject(action, place)

    def _decide(self, call: SystemCall, place: Place | None) -> DiskAction | None:
        """Return the fault to inject into a call, or None.  The lock is needed because log files
        are also used by other threads."""
        if not self._faults or place is None:
            return None
        with self._deciding:
            return self._faults.decide_disk(log_call(call, *place))


def _inject(action: DiskAction, place: Place) -> None:
    """Wait, or raise the OSError that the operating system would raise."""
    if action.disk is DiskFault.SLOW:
        time.sleep(action.delay_ms / 1000)
        return
    code = ERRNOS[action.disk]
    raise OSError(code, os.strerror(code), "/".join(filter(None, place)))
