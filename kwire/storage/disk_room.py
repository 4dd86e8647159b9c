"""Warns before a disk is full: by then appends are refused, and producers wait.

The volumes of all log directories are looked at every 30 s, which takes one statvfs each.  What is
logged is a change: a volume that becomes nearly full, or full, or has room again.
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
"""A disk that takes 300 MB/s fills the ten segments of a volume that is nearly full in 35 s."""


class RoomWatch:
    """Knows how full the volumes of a broker's log directories were at the last look."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._known: dict[Path, Fullness] = {}

    async def run(self) -> None:
        while True:
            self.look()  # on the loop, as appends to the same disk
            await trio.sleep(INTERVAL_S)

    def look(self) -> None:
        for directory in list(self._logs.online_dirs):
            try:
                total_bytes, usable_bytes = directory.disk_usage()
            except OSError as error:
                # It is no failure of the logs in it: who reads or writes them finds out.
                log.warning("Cannot tell how full the disk of %s is: %s", directory.path, error)
                continue
            self._tell(directory.path, total_bytes, usable_bytes)

    def _tell(self, path: Path, total_bytes: int, usable_bytes: int) -> None:
        now = fullness(total_bytes, usable_bytes)
        before = self._known.get(path, Fullness.ROOMY)
        self._known[path] = now
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
