"""Whether a disk is full or nearly full, by its size and what is left of it (KIP-827).

Full: less than a batch of `message.max.bytes` (1 MiB) is left, so that appends are refused.
Nearly full: less than a twentieth is left, and less than ten segments of a gibibyte.  A twentieth
is what file systems reserve for the same reason (ext4, by default); of a large disk it would be
weeks of records, and ten segments are what a busy broker begins within the hour that somebody
needs to make room.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

FULL_BELOW_BYTES: Final = 1024 * 1024
NEARLY_FULL_BELOW_SHARE: Final = 0.05
NEARLY_FULL_BELOW_BYTES: Final = 10 * 1024**3
UNKNOWN: Final = -1
"""What DescribeLogDirs says before v4, and of a directory that is offline."""


class Fullness(enum.Enum):
    ROOMY = "has room"
    NEARLY_FULL = "nearly full"
    FULL = "full"


class Volume(NamedTuple):
    """The disk of a log directory."""

    log_dir: str
    total_bytes: int
    usable_bytes: int

    @property
    def fullness(self) -> Fullness:
        return fullness(self.total_bytes, self.usable_bytes)


def fullness(total_bytes: int, usable_bytes: int) -> Fullness:
    """ROOMY, too, where a size is UNKNOWN."""
    if total_bytes < 0 or usable_bytes < 0:
        return Fullness.ROOMY
    if usable_bytes < FULL_BELOW_BYTES:
        return Fullness.FULL
    if usable_bytes < min(NEARLY_FULL_BELOW_SHARE * total_bytes, NEARLY_FULL_BELOW_BYTES):
        return Fullness.NEARLY_FULL
    return Fullness.ROOMY
