"""Timely requests: those that can put off a due timer, and so are served before it fires."""

from __future__ import annotations

import struct

from kwire.codecs.api_keys import ApiKey

LOOKED_AT_BYTES = 4096
"""How many bytes of a socket's buffer are searched for them: such requests are small."""

TIMELY = frozenset(
    {
        ApiKey.HEARTBEAT,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.END_TXN,
    }
)
"""Requests that put off a member's session timeout or a group's rebalance timeout, or that end a
transaction before its timeout aborts it."""

_SIZE_AND_KEY = struct.Struct(">ih")


def has_timely_request(data: bytes) -> bool:
    """Return whether one of the requests at the start of `data` is timely."""
    at = 0
    while at + _SIZE_AND_KEY.size <= len(data):
        size, key = _SIZE_AND_KEY.unpack_from(data, at)
        if key in TIMELY:
            return True
        if size <= 0:
            break
        at += 4 + size
    return False
