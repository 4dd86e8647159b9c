"""A task that warns before a disk is full.  On a full disk appends are refused, and producers wait.

The task checks the volumes of all log directories every 30 s, with one statvfs each.  It logs
changes only: a volume becomes nearly full, becomes full, or has room again.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from kwire.codecs.volumes import Fullness, fullness

if TYPE_CHECKING:
    from kwire.log import LogManager

log = logging.getLogger("kwire.disk")

INTERVAL_S: Final = 30.0
"""A disk at 300 MB/s writes ten segments, the room that "nearly full" leaves, in 35 s."""


class RoomWatch:
    """Checks the volumes of a broker's log directories, and remembers the result of each."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._last: dict[Path, Fullness] = {}

    async def run(self) -> None:
        while True:
            self.look()  # on the loop: appends write to the same disk there, too
            await trio.sleep(INTERVAL_S)

    def look(self) -> None:
        """Log which disks have become full, nearly full or roomy since the last look."""
        for directory in list(self._logs.online_dirs):
            try:
                total_bytes, usable_bytes = directory.disk_usage()
            except OSError as error:
                # This is no failure of the logs: the next read or write of one finds that out.
                log.warning("Cannot tell how full the disk of %s is: %s", directory.path, error)
                continue
            self._log_change(directory.path, total_bytes, usable_bytes)

    def _log_change(self, path: Path, total_bytes: int, usable_bytes: int) -> None:
        """Log the change of one disk since the last look, if there is any."""
        now = fullness(total_bytes, usable_bytes)
        before = self._last.get(path, Fullness.ROOMY)
        self._last[path] = now
        if now is before:
            return
        room = f"{usable_bytes:,} of {total_bytes:,} bytes are left"
        if now is Fullness.FULL:
            log.error("The disk of %s is full: %s. Appends are refused; make room.", path, room)
        elif now is Fullness.NEARLY_FULL and before is Fullness.ROOMY:
            log.warning("The disk of %s is nearly full: %s. Make room, or lower the retention.",
                        path, room)  # fmt: skip
        else:
            log.info("The disk of %s is %s: %s.", path, now.value, room)
