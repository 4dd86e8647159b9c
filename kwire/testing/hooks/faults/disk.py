"""Disks that fail a broker: what a rule may ask of them, and which calls of the log it is about.

    {"disk": "full", "topic": "orders", "times": 3}
    {"disk": "slow", "delay_ms": 300, "on": "fsync"}
    {"disk": "failed", "on": ["append", "roll"], "topic": "orders", "partition": 0}

What becomes of that is the broker's own doing: it is told what the system would tell it.

    full        there is no room (ENOSPC).  Of a write the first half gets there, as it may on a
                disk that is full.  Unless `on` says otherwise it is about what takes room
    failed      the disk is broken (EIO): a log directory goes offline
    slow        each call takes `delay_ms` longer; the broker waits for it as for any disk

`on` is one or several of: append (records), index, roll (the files of a new segment, and the
folder of a new partition), snapshot (of producers), checkpoint, other (small files), fsync, and
read, which is what the broker reads itself: what consumers get the kernel sends.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple


class Disk(Enum):
    """What is wrong with it."""

    FULL = "full"
    FAILED = "failed"
    SLOW = "slow"


class Call(Enum):
    """What is asked of a disk."""

    CREATE = "create"
    WRITE = "write"
    FSYNC = "fsync"
    READ = "read"


class Operation(Enum):
    """What the log is at: see the module."""

    APPEND = "append"
    INDEX = "index"
    ROLL = "roll"
    SNAPSHOT = "snapshot"
    CHECKPOINT = "checkpoint"
    OTHER = "other"
    FSYNC = "fsync"
    READ = "read"


ERRNOS: Final[Mapping[Disk, int]] = {Disk.FULL: errno.ENOSPC, Disk.FAILED: errno.EIO}

EVERYTHING: Final = frozenset(Operation)
WHAT_TAKES_ROOM: Final = EVERYTHING - {Operation.FSYNC, Operation.READ}
SLOW_MS: Final = 1000
"""How much longer a slow disk takes, if nothing is said."""

_OF_SEGMENTS: Final = (".log", ".index", ".timeindex", ".txnindex")
_OF_PARTITIONS: Final = ("leader-epoch-checkpoint", "partition.metadata")


class OfDisk(NamedTuple):
    """What a rule asks of a disk."""

    disk: Disk
    on: frozenset[Operation]
    delay_ms: int


class Touched(NamedTuple):
    """A call of the log, as far as rules look at it."""

    operation: Operation
    file: str
    """With its folder, as `orders-0/00000000000000000000.log`; of a folder its name alone."""
    topic: str | None
    partition: int | None


class OnDisk(NamedTuple):
    """A call of the log that a rule befell."""

    rule: int
    time_ms: int
    disk: Disk
    touched: Touched
    delay_ms: int

    def to_json(self) -> dict[str, Any]:
        """As it is told over HTTP."""
        touched = self.touched
        of = [{"topic": touched.topic, "partition": touched.partition}] if touched.topic else []
        delay = {"delay_ms": self.delay_ms} if self.disk is Disk.SLOW else {}
        return {
            "rule": self.rule,
            "time_ms": self.time_ms,
            "disk": self.disk.value,
            "on": touched.operation.value,
            "file": touched.file,
            "partitions": of,
            **delay,
        }


def touched(call: Call, folder: str, name: str) -> Touched:
    """What a call is about: a file and its folder, both by their names, or a folder alone."""
    of_partition = (folder if _is_of_partition(name) else "") if folder else name
    topic, dash, number = of_partition.rpartition("-")
    is_known = bool(dash) and number.isdecimal()
    return Touched(
        _operation(call, folder, name),
        f"{folder}/{name}" if is_known and folder else name,
        topic if is_known else None,
        int(number) if is_known else None,
    )


def _is_of_partition(name: str) -> bool:
    """Whether a file of that name is in a partition's folder, and not beside those."""
    name = name.removesuffix(".tmp")
    return name.endswith((*_OF_SEGMENTS, ".snapshot")) or name in _OF_PARTITIONS


def _operation(call: Call, folder: str, name: str) -> Operation:
    if call is Call.FSYNC:
        return Operation.FSYNC
    if call is Call.READ:
        return Operation.READ
    name = name.removesuffix(".tmp")
    if name.endswith("-checkpoint"):
        return Operation.CHECKPOINT
    if name.endswith(".snapshot"):
        return Operation.SNAPSHOT
    if call is Call.CREATE and (not folder or name.endswith(_OF_SEGMENTS)):
        return Operation.ROLL
    if not name.endswith(_OF_SEGMENTS):
        return Operation.OTHER
    return Operation.APPEND if name.endswith(".log") else Operation.INDEX
