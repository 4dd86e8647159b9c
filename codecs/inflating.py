"""The bounds on inflating, which all codecs share."""

from __future__ import annotations

from kwire.codecs.record import CorruptBatch

Buffer = bytes | bytearray | memoryview

INFLATED_SIZE_BYTES_MAX = 100 * 1024 * 1024
"""Default bound on an inflated batch: what socket.request.max.bytes lets a client send plain.

Kafka itself has no bound, but inflates as a stream; a batch of max.message.bytes (1 MiB) may
inflate to 1 GiB with gzip and to far more with zstd.
"""

CHUNK_SIZE_BYTES = 256 * 1024
"""How much is inflated at once: with the result so far, the most memory that a bomb can take."""


def too_large(size_bytes_max: int) -> CorruptBatch:
    """What every inflater raises when its output passes the bound."""
    return CorruptBatch(f"a batch inflates to more than {size_bytes_max} bytes")
