"""Whether a disk is full or nearly full, by its size and its free bytes (KIP-827).

Full means that less than a batch of `message.max.bytes` (1 MiB) is free, so appends are refused.
Nearly full means that less than a twentieth is free, and less than ten segments of a gibibyte.
File systems reserve a twentieth for the same reason (ext4, by default).  On a large disk, that
would be room for weeks of records; a busy broker fills ten segments in about an hour, the time that
somebody needs to make room.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

FULL_BELOW_BYTES: Final = 1024 * 1024
NEARLY_FULL_BELOW_SHARE: Final = 0.05
NEARLY_FULL_BELOW_BYTES: Final = 10 * 1024**3
UNKNOWN: Final = -1
"""The size in DescribeLogDirs before v4, and of an offline directory."""


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
    """Return the fullness of a disk.  It is ROOMY if a size is UNKNOWN."""
    if total_bytes < 0 or usable_bytes < 0:
        return Fullness.ROOMY
    if usable_bytes < FULL_BELOW_BYTES:
        return Fullness.FULL
    if usable_bytes < min(NEARLY_FULL_BELOW_SHARE * total_bytes, NEARLY_FULL_BELOW_BYTES):
        return Fullness.NEARLY_FULL
    return Fullness.ROOMY
