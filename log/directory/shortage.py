"""Shortages: errors that pass, as the disk is full or the process can open no more files.

Apache Kafka takes a log directory out of service for them as for any other failure, and a broker
that has lost its last one halts: somebody makes room and starts it again. This one refuses what it
has no room for with the same error code, KAFKA_STORAGE_ERROR, which clients retry, and goes on
when there is room. A step that may be refused so must leave the log as it was. That is so of
appends, rolls and truncations alike: a follower that has to cut its log tries again.

A failed fsync is never of these, whatever its error says: what it was to save may be lost.
"""

from __future__ import annotations

import errno

PASSING = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,  # beyond the process' limit on a file's size
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    }
)


def passes(error: OSError) -> bool:
    """Whether the error is a shortage: the same call may succeed later without a repair."""
    return error.errno in PASSING
