"""Requests that come before timers which are due: they say in time what a timer would deny."""

from __future__ import annotations

import struct

from kwire.codecs.api_keys import ApiKey

LOOKED_AT_BYTES = 4096
"""How much of what lies in a socket is searched for them: such requests are small."""

_TIMELY = frozenset(
    {
        ApiKey.HEARTBEAT,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.END_TXN,
    }
)
"""Requests that put off a timer, or do in time what it would undo: in a group, of its member's
session and of its rebalance; of a transaction, its timeout."""

_SIZE_AND_KEY = struct.Struct(">ih")


def has_timely_request(data: bytes) -> bool:
    """Whether there is one among the frames that `data` begins with."""
    at = 0
    while at + _SIZE_AND_KEY.size <= len(data):
        size, key = _SIZE_AND_KEY.unpack_from(data, at)
        if key in _TIMELY:
            return True
        if size <= 0:
            break
        at += 4 + size
    return False
