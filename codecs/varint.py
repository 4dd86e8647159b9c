"""Zig-zag varints as in record batches: Kafka's ByteUtils, protobuf's sint32 and sint64.

Hot loops look one-byte values up in `ZIGZAG` and short encodings in `VARINTS`; the functions serve
the rest. A read past the end of `data` raises IndexError, an overlong varint CorruptBatch.
"""

from __future__ import annotations

from kwire.codecs.record import CorruptBatch

ZIGZAG = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))
"""The value of each varint of one byte."""

_VARINT_SIZE_MAX = 5
_VARLONG_SIZE_MAX = 10


def read_varint(data: bytes | bytearray | memoryview, pos: int) -> tuple[int, int]:
    """Return the int32 at `pos` and the position after it."""
    byte = data[pos]
    pos += 1
    # One or two bytes, by far the most frequent, need no loop.
    if byte < 128:
        return ZIGZAG[byte], pos
    raw = byte & 127
    byte = data[pos]
    pos += 1
    if byte < 128:
        raw |= byte << 7
        return (raw >> 1) ^ -(raw & 1), pos
    raw, pos = _read_unsigned(data, pos - 2, _VARINT_SIZE_MAX)
    raw &= 0xFFFFFFFF  # ByteUtils drops what the fifth byte holds above bit 31
    return (raw >> 1) ^ -(raw & 1), pos


def read_varlong(data: bytes, pos: int) -> tuple[int, int]:
    """The int64 at `pos` and the position after it."""
    raw, pos = _read_unsigned(data, pos, _VARLONG_SIZE_MAX)
    raw &= 0xFFFFFFFFFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), pos


def _read_unsigned(
    data: bytes | bytearray | memoryview, pos: int, size_max: int
) -> tuple[int, int]:
    """Return the varint at `pos`, before the zig-zag decoding, and the position after it.

    Raises CorruptBatch if it has more than `size_max` bytes, and IndexError at the end of the data.
    """
    raw = 0
    for shift in range(0, 7 * size_max, 7):
        byte = data[pos]
        pos += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            return raw, pos
    raise CorruptBatch(f"a varint is longer than {size_max} bytes")


def varint(value: int) -> bytes:
    """Return `value` (an int32 or int64: their encodings agree) as a varint."""
    raw = value << 1 if value >= 0 else (~value << 1) | 1
    out = bytearray()
    while raw > 127:
        out.append((raw & 127) | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


VARINTS = tuple(varint(value) for value in range(1024))
"""Encodings of 0..1023: most sizes, offset deltas and timestamp deltas. 1024 cost 35 kB."""
