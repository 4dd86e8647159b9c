"""Fault rules about a broker's disk: their fields, and the calls of the log that they match.

    {"disk": "full", "topic": "orders", "times": 3}
    {"disk": "slow", "delay_ms": 300, "on": "fsync"}
    {"disk": "failed", "on": ["append", "roll"], "topic": "orders", "partition": 0}

The broker's call gets the error or the delay that the operating system would give; how the broker
reacts to it is not part of the fault.

    full        no space is left (ENOSPC).  A write stores the first half of its bytes, as it may
                on a full disk.  Without `on`, the rule is about all operations that need space.
    failed      the disk is broken (EIO): the log directory goes offline.
    slow        each call takes `delay_ms` longer.

`on` is one or several of: append (records), index, roll (the files of a new segment, and the
folder of a new partition), snapshot (of producers), checkpoint, other (small files), fsync, and
read.  A read is one by the broker itself; data for consumers is sent by the kernel (sendfile) and
is not affected.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple


class DiskFault(Enum):
    """What is wrong with the disk."""

    FULL = "full"
    FAILED = "failed"
    SLOW = "slow"


class SystemCall(Enum):
    """The kind of a call to the operating system."""

    CREATE = "create"
    WRITE = "write"
    FSYNC = "fsync"
    READ = "read"


class LogOperation(Enum):
    """What the log does with a call; the head of the module explains the values."""

    APPEND = "append"
    INDEX = "index"
    ROLL = "roll"
    SNAPSHOT = "snapshot"
    CHECKPOINT = "checkpoint"
    OTHER = "other"
    FSYNC = "fsync"
    READ = "read"


ERRNOS: Final[Mapping[DiskFault, int]] = {DiskFault.FULL: errno.ENOSPC, DiskFault.FAILED: errno.EIO}

EVERYTHING: Final = frozenset(LogOperation)
NEEDS_SPACE: Final = EVERYTHING - {LogOperation.FSYNC, LogOperation.READ}
SLOW_MS: Final = 1000
"""How much longer a call takes on a slow disk, if the rule has no `delay_ms`."""

_OF_SEGMENTS: Final = (".log", ".index", ".timeindex", ".txnindex")
_OF_PARTITIONS: Final = ("leader-epoch-checkpoint", "partition.metadata")


class DiskAction(NamedTuple):
    """What a rule injects into disk operations, and into which ones."""

    disk: DiskFault
    on: frozenset[LogOperation]
    delay_ms: int


class LogCall(NamedTuple):
    """One call of the log to the operating system, with what rules match on."""

    operation: LogOperation
    file: str
    """The file with its folder, as `orders-0/00000000000000000000.log`, or the name of a folder."""
    topic: str | None
    partition: int | None


class DiskInjection(NamedTuple):
    """One injection of a rule into a call of the log."""

    rule: int
    time_ms: int
    disk: DiskFault
    call: LogCall
    delay_ms: int

    def to_json(self) -> dict[str, Any]:
        """The injection as GET /faults/happened returns it."""
        call = self.call
        partitions = [{"topic": call.topic, "partition": call.partition}] if call.topic else []
        delay = {"delay_ms": self.delay_ms} if self.disk is DiskFault.SLOW else {}
        return {
            "rule": self.rule,
            "time_ms": self.time_ms,
            "disk": self.disk.value,
            "on": call.operation.value,
            "file": call.file,
            "partitions": partitions,
            **delay,
        }


def log_call(call: SystemCall, folder: str, name: str) -> LogCall:
    """The operation and the partition of a call on the file `name` in `folder`.

    Both are names without a path; `folder` is empty if the call is on a folder.
    """
    partition_folder = (folder if _is_of_partition(name) else "") if folder else name
    topic, dash, number = partition_folder.rpartition("-")
    is_partition = bool(dash) and number.isdecimal()
    return LogCall(
        _operation(call, folder, name),
        f"{folder}/{name}" if is_partition and folder else name,
        topic if is_partition else None,
        int(number) if is_partition else None,
    )


def _is_of_partition(name: str) -> bool:
    """Whether a file of that name belongs to a partition, not to the log directory."""
    name = name.removesuffix(".tmp")
    return name.endswith((*_OF_SEGMENTS, ".snapshot")) or name in _OF_PARTITIONS


def _operation(call: SystemCall, folder: str, name: str) -> LogOperation:
    """Return the log operation that a system call is part of, which follows from the call and from
    the name of the file.  `folder` is the name of the folder that has the file, or empty if `name`
    is itself a folder."""
    if call is SystemCall.FSYNC:
        return LogOperation.FSYNC
    if call is SystemCall.READ:
        return LogOperation.READ
    name = name.removesuffix(".tmp")
    if name.endswith("-checkpoint"):
        return LogOperation.CHECKPOINT
    if name.endswith(".snapshot"):
        return LogOperation.SNAPSHOT
    if call is SystemCall.CREATE and (not folder or name.endswith(_OF_SEGMENTS)):
        return LogOperation.ROLL
    if not name.endswith(_OF_SEGMENTS):
        return LogOperation.OTHER
    return LogOperation.APPEND if name.endswith(".log") else LogOperation.INDEX
