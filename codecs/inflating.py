"""The limits of decompression, which all codecs share."""

from __future__ import annotations

from kwire.codecs.record import CorruptBatch

Buffer = bytes | bytearray | memoryview

INFLATED_SIZE_BYTES_MAX = 100 * 1024 * 1024
"""The default limit of a decompressed batch: what a client may send without compression.

It is the default of socket.request.max.bytes.  Kafka has no limit, but decompresses as a stream.  A
batch of max.message.bytes (1 MiB) may inflate to 1 GiB with gzip, and to far more with zstd.
"""

CHUNK_SIZE_BYTES = 256 * 1024
"""The bytes that are decompressed at once.  A decompression bomb takes as much memory as this and
the result so far."""


def too_large(size_bytes_max: int) -> CorruptBatch:
    """The error for a batch whose decompressed size is above the limit."""
    return CorruptBatch(f"a batch inflates to more than {size_bytes_max} bytes")
