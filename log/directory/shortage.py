"""Shortages: temporary errors, such as a full disk or a lack of file descriptors.

Apache Kafka takes a log directory out of service for them as for any other failure, and a broker
without a directory left halts, until somebody makes room and starts it again.  kwire refuses what
it has no room for with the same error code, KAFKA_STORAGE_ERROR, which clients retry, and continues
when there is room.  A refused step must leave the log unchanged: an append, a roll, or the
truncation of a follower, which the follower repeats.

A failed fsync is never a shortage, whatever its error code: its data may be lost.
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
