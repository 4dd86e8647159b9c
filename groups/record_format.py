"""What all records of `__consumer_offsets` share.

Layout (Apache Kafka's; its tools and other brokers read these bytes):

    key    int16 record type, then the key's fields
    value  int16 version, then the value's fields; a null value deletes what the key names
"""

from __future__ import annotations

import struct

from kwire.codecs.primitives import Message

VERSION = struct.Struct(">h")
VALUE_PREFIX = [VERSION.pack(version) for version in range(8)]
"""By version."""


class UnreadableRecord(ValueError):
    """A record of a known type in a version that this broker does not know, or torn."""


def version_of(value: bytes, kind: type[Message]) -> int:
    """The version that a value says it is in.  Raises UnreadableRecord."""
    if len(value) < 2:
        raise UnreadableRecord(f"{kind.__name__} of {len(value)} bytes")
    version: int = VERSION.unpack_from(value)[0]
    if not kind.MIN_VERSION <= version <= kind.MAX_VERSION:
        raise UnreadableRecord(f"{kind.__name__} of unknown version {version}")
    return version
