"""Reads the keys of a batch's records, and the positions of their values.

In a replay of a compacted topic, only the last record of a key counts.  So the replay reads every
key, and decodes few values.  See `batch_reader` for the layout.
"""

from __future__ import annotations

from kwire.codecs.record import CorruptBatch
from kwire.codecs.varint import ZIGZAG, read_varint

NULL = 1
"""The varint of size -1, which means that the key or value is null."""


def scan(data: bytes, pos: int, end: int, count: int) -> list[tuple[bytes | None, int]]:
    """Return the key and value position of each of the `count` records that fill `data[pos:end]`.

    The position is that of the value's size; see `value_at`.  Raises CorruptBatch if the records do
    not fill the bytes.
    """
    keys: list[tuple[bytes | None, int]] = []
    zigzag = ZIGZAG
    try:
        for _ in range(count):
            if (byte := data[pos]) < 128:
                record_end = pos + 1 + zigzag[byte]
                pos += 2  # past the attributes too
            elif (high := data[pos + 1]) < 128:
                record_end = pos + 2 + ((byte & 127 | high << 7) >> 1)
                pos += 3
            else:
                size, pos = read_varint(data, pos)
                record_end = pos + size
                pos += 1
            while data[pos] > 127:  # the timestamp
                pos += 1
            pos += 1
            while data[pos] > 127:  # the offset
                pos += 1
            if (byte := data[pos + 1]) < 128:
                pos += 2
                size = zigzag[byte]
            else:
                size, pos = read_varint(data, pos + 1)
            at = pos + size if size >= 0 else pos
            if not pos <= at < record_end <= end:
                raise CorruptBatch(f"a key of {size} bytes leaves its record")
            keys.append((data[pos:at] if size >= 0 else None, at))
            pos = record_end
    except IndexError:
        raise CorruptBatch("a batch ends within a record") from None
    if pos != end:
        raise CorruptBatch(f"{count} records do not fill their batch")
    return keys


def value_at(data: bytes, at: int) -> bytes | None:
    """Return the value whose size is at `at`.  Raises CorruptBatch if the bytes end within it."""
    try:
        size, pos = read_varint(data, at)
    except IndexError:
        raise CorruptBatch("a batch ends within a record") from None
    if pos + size > len(data):
        raise CorruptBatch(f"a value of {size} bytes is cut short")
    return None if size < 0 else data[pos : pos + size]
