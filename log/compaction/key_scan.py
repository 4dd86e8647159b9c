"""Reads only those parts of records that the cleaner needs, from batches of magic 2.

There are two loops over the same bytes.  One reads only keys; it reads every record since the last
cleaning and takes most of the time of a cleaning.  The other reads whole records of batches that
are rewritten.  See `codecs/batch_reader.py` for the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from kwire.codecs.batches import BatchHeader, CorruptBatch
from kwire.codecs.varint import VARINTS, ZIGZAG, read_varint, read_varlong, varint

KEY_BYTES_MAX = 23
"""Longer keys are replaced by a hash, so that a key takes at most 64 bytes of memory."""

_HASH_BYTES = (
    24  # longer than any key that is kept unhashed; a collision has a probability of 2^-96
)
_NULL = 1  # the varint -1, a size that means null


class BatchKeys(NamedTuple):
    """The keys of a batch with the offsets of their records; `has_nulls` if any value is null."""

    keys: list[bytes]
    offsets: Sequence[int]
    has_nulls: bool


def short_key(key: bytes) -> bytes:
    """The key, or the hash of a long key."""
    return key if len(key) <= KEY_BYTES_MAX else blake2b(key, digest_size=_HASH_BYTES).digest()


def scan_keys(data: bytes, pos: int, end: int, header: BatchHeader) -> BatchKeys:
    """Return the keys of the records in `data[pos:end]`; records without a key are left out.

    If there are as many records as offsets, the n-th record is assumed to have the n-th offset.
    The broker has checked that, and `picked` checks it again.  Raises CorruptBatch if the records
    do not fill the bytes.
    """
    count = header.records_count
    found = None
    if count == header.last_offset_delta + 1:
        found = _scan_numbered(data, pos, end, header)
    if found is None:
        found = _scan_gapped(data, pos, end, header)
    if found.keys and max(map(len, found.keys)) > KEY_BYTES_MAX:
        return found._replace(keys=[short_key(key) for key in found.keys])
    return found


def _scan_numbered(  # noqa: C901 - the hot loop, short varints in line: calls would halve its speed
    data: bytes, pos: int, end: int, header: BatchHeader
) -> BatchKeys | None:
    """Return the keys of records with offset deltas 0, 1, 2...; None if a record has no key."""
    keys: list[bytes] = []
    add_key = keys.append
    has_nulls = False
    zigzag = ZIGZAG
    try:
        for _ in range(header.records_count):
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
                key_end = pos + zigzag[byte]
            else:
                size, pos = read_varint(data, pos + 1)
                key_end = pos + size
            if not pos <= key_end < record_end:
                return None
            add_key(data[pos:key_end])
            if data[key_end] == _NULL:
                has_nulls = True
            pos = record_end
    except IndexError:
        raise CorruptBatch("a batch ends within a record") from None
    if pos != end:
        raise CorruptBatch(f"{header.records_count} records do not fill their batch")
    first = header.base_offset
    return BatchKeys(keys, range(first, first + header.records_count), has_nulls)


def _scan_gapped(data: bytes, pos: int, end: int, header: BatchHeader) -> BatchKeys:
    """Return the keys of a batch whose offsets have gaps or whose records may lack keys.

    It is the slow, general way: it reads the offset delta of every record.
    """
    found = [
        entry for entry in entries(data, pos, end, header.records_count) if entry.key is not None
    ]
    return BatchKeys(
        [entry.key for entry in found if entry.key is not None],
        [header.base_offset + entry.offset_delta for entry in found],
        not all(entry.has_value for entry in found),
    )


class ScannedRecord(NamedTuple):
    """One record of a batch: `start` to `end` with its size, from `rest` on the offset delta."""

    start: int
    end: int
    rest: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def entry_at(data: bytes, start: int) -> ScannedRecord:
    """Return the record at `start`.  Raises IndexError or CorruptBatch if there is none."""
    size, pos = read_varint(data, start)
    end = pos + size
    timestamp_delta, rest = read_varlong(data, pos + 1)
    offset_delta, pos = read_varint(data, rest)
    size, pos = read_varint(data, pos)
    key = None
    if size >= 0:
        key = data[pos : pos + size]
        pos += size
    if pos >= end or end > len(data):
        raise CorruptBatch("a batch ends within a record")
    return ScannedRecord(start, end, rest, timestamp_delta, offset_delta, key, data[pos] != _NULL)


def entries(data: bytes, pos: int, end: int, count: int) -> list[ScannedRecord]:
    """Return the `count` records that fill `data[pos:end]`."""
    found = []
    try:
        for _ in range(count):
            entry = entry_at(data, pos)
            found.append(entry)
            pos = entry.end
    except IndexError:
        raise CorruptBatch("a batch ends within a record") from None
    if pos != end:
        raise CorruptBatch(f"{count} records do not fill their batch")
    return found


def _plain_entry(data: bytes, start: int, delta: int) -> ScannedRecord | None:
    """Return the record at `start` without its key, by a fast path; None if that does not apply.

    It applies to a record with this delta and short varints.  The record is assumed to have a
    value, because `picked` is not called for batches with tombstones.
    """
    if (byte := data[start]) < 128:
        pos = start + 1
        end = pos + ZIGZAG[byte]
    elif (high := data[start + 1]) < 128:
        pos = start + 2
        end = pos + ((byte & 127 | high << 7) >> 1)
    else:
        return None
    expected = VARINTS[delta] if delta < len(VARINTS) else varint(delta)
    rest = pos + 2  # past the attributes and the timestamp
    if (timestamp := data[pos + 1]) > 127 or not data.startswith(expected, rest):
        return None
    return ScannedRecord(start, end, rest, ZIGZAG[timestamp], delta, None, True)


def picked(data: bytes, pos: int, deltas: list[int]) -> list[ScannedRecord] | None:
    """Return the records of these offset deltas, ascending, where the n-th record has delta n.

    The others are passed over by their sizes alone.  None if a record's delta is another one.  The
    batch must have no null values; keys are not given.
    """
    found = []
    at = 0
    zigzag = ZIGZAG
    try:
        for delta in deltas:
            for _ in range(delta - at):
                if (byte := data[pos]) < 128:
                    pos += 1 + zigzag[byte]
                elif (high := data[pos + 1]) < 128:
                    pos += 2 + ((byte & 127 | high << 7) >> 1)
                else:
                    size, pos = read_varint(data, pos)
                    pos += size
            entry = _plain_entry(data, pos, delta) or entry_at(data, pos)
            if entry.offset_delta != delta:
                return None
            found.append(entry)
            pos = entry.end
            at = delta + 1
    except IndexError:
        raise CorruptBatch("a batch ends within a record") from None
    return found
