"""Reads the records of a batch of magic 2, with the checks of Apache Kafka's DefaultRecord.

A record, which follows its size.  All integers but the first are zig-zag varints:

    int8 attributes (unused) | timestamp delta | offset delta | key size, key | value size, value
    | headers count | (key size, key | value size, value)*

A negative size means null.  Deltas are added like int64 in Java, with wrap-around.  They are not
compared with the header, because a consumer must read everything that a broker stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kwire.codecs.batch_header import BatchHeader
from kwire.codecs.batch_layout import CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD
from kwire.codecs.compression import Compression, decompress
from kwire.codecs.inflating import INFLATED_SIZE_BYTES_MAX, Buffer
from kwire.codecs.record import CorruptBatch, OversizedRecord, Record, TimestampType
from kwire.codecs.varint import ZIGZAG, read_varint, read_varlong

_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)
_SHORT_DELTA_MAX = 8192  # a varint of at most two bytes is within -8192..8191

SHORT_BATCH_RECORDS_MAX = 8
"""In uncompressed batches of at most so many records, sizes are added up: a microsecond at most."""
_RECORD_SIZE_BYTES_MIN = 7  # its size, attributes, two deltas, no key, no value, no headers
_RECORDS_PER_BYTE_MAX = 64  # in compressed bytes; only gzip and zstd of zeros have more


def inner_bytes(
    data: Buffer, pos: int, header: BatchHeader, size_bytes_max: int = INFLATED_SIZE_BYTES_MAX
) -> bytes:
    """Return the decompressed records of the batch at `pos`."""
    end = pos + header.size_bytes
    if end > len(data):
        raise CorruptBatch(f"a batch of {header.size_bytes} bytes is cut short")
    payload = memoryview(data)[pos + HEADER_SIZE : end]
    codec = header.compression
    if codec == Compression.NONE:
        return bytes(payload)
    return decompress(codec, payload, size_bytes_max)


def within_limit(inner: bytes, count: int, record_bytes_max: int) -> int:
    """Return how many of the `count` records in `inner` precede the first one that is too large.

    Only the sizes are read, which do not count themselves.  Raises CorruptBatch if the records do
    not fill `inner`, unless one of them is too large.
    """
    pos = 0
    try:
        for number in range(count):
            if (byte := inner[pos]) < 128:
                size = ZIGZAG[byte]
                pos += 1
            else:
                size, pos = read_varint(inner, pos)
            if size > record_bytes_max:
                return number
            if size < 0:
                raise CorruptBatch(f"a record has a size of {size}")
            pos += size
    except IndexError:
        raise CorruptBatch("a batch ends within a record") from None
    if pos != len(inner):
        raise CorruptBatch(f"{count} records do not fill their batch")
    return count


def check_sizes(inner: bytes, count: int, record_bytes_max: int | None) -> None:
    """Raise OversizedRecord if one of the `count` records in `inner` is larger than the limit.

    Without a limit nothing is read.
    """
    if record_bytes_max is not None and within_limit(inner, count, record_bytes_max) < count:
        raise OversizedRecord(record_bytes_max)


def iter_limited(inner: bytes, header: BatchHeader, record_bytes_max: int) -> Iterator[Record]:
    """Yield the records in `inner`; raises OversizedRecord at the first one above the limit."""
    within = within_limit(inner, header.records_count, record_bytes_max)
    yield from islice(iter_records(inner, header), within)
    if within < header.records_count:
        raise OversizedRecord(record_bytes_max)


def is_plausible(data: Buffer, header: BatchHeader) -> bool:
    """Return whether the batch at the start of `data` can hold as many records as its header says.

    It checks the sizes of the records in a short uncompressed batch, and only the possible number
    of records in others.  So True is no proof.  After False, the records have to be read to decide.
    """
    payload_bytes = header.length + LOG_OVERHEAD - HEADER_SIZE
    if header.attributes & CODEC_MASK:
        return header.records_count <= payload_bytes * _RECORDS_PER_BYTE_MAX
    if header.records_count > SHORT_BATCH_RECORDS_MAX:
        return header.records_count * _RECORD_SIZE_BYTES_MIN <= payload_bytes
    return _sizes_fill(data, HEADER_SIZE, HEADER_SIZE + payload_bytes, header.records_count)


def _sizes_fill(data: Buffer, pos: int, end: int, count: int) -> bool:
    """Return whether `count` records fill the bytes from `pos` to `end`, by their sizes only."""
    try:
        for _ in range(count):
            if (byte := data[pos]) < 128:
                pos += 1 + ZIGZAG[byte]
            elif (high := data[pos + 1]) < 128:
                raw = byte & 127 | high << 7
                pos += 2 + ((raw >> 1) ^ -(raw & 1))
            else:
                size, pos = read_varint(data, pos)
                pos += size
    except (IndexError, CorruptBatch):
        return False
    return pos == end


def iter_records(inner: bytes, header: BatchHeader) -> Iterator[Record]:
    """Return the records in `inner`, the decompressed content of a batch with this header."""
    if header.records_count < 0:
        raise CorruptBatch(f"a batch cannot hold {header.records_count} records")
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        return _stamped(_iter_records(inner, header), header.max_timestamp)
    return _iter_records(inner, header)


def _stamped(records: Iterator[Record], timestamp: int) -> Iterator[Record]:
    for record in records:
        record.timestamp = timestamp
        yield record


def _iter_records(inner: bytes, header: BatchHeader) -> Iterator[Record]:  # noqa: C901 - see below
    """Yield the records of the decompressed bytes; raises CorruptBatch.

    It is one loop that decodes short varints inline, because calls would halve its speed.
    """
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    last = _last_byte_below(header)
    zigzag = ZIGZAG
    size_bytes = len(inner)
    pos = 0
    try:
        for _ in range(header.records_count):
            if (byte := inner[pos]) < 128:
                end = pos + 1 + zigzag[byte]
                pos += 2  # past the attributes too
            else:
                size, pos = read_varint(inner, pos)
                end = pos + size
                pos += 1
            if (byte := inner[pos]) < last:
                timestamp = base_timestamp + zigzag[byte]
                pos += 1
            elif (high := inner[pos + 1]) < last:
                raw = byte & 127 | high << 7
                timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1))
                pos += 2
            else:
                delta, pos = read_varlong(inner, pos)
                timestamp = _int64(base_timestamp + delta)
            if (byte := inner[pos]) < last:
                offset = base_offset + zigzag[byte]
                pos += 1
            elif (high := inner[pos + 1]) < last:
                raw = byte & 127 | high << 7
                offset = base_offset + ((raw >> 1) ^ -(raw & 1))
                pos += 2
            else:
                delta, pos = read_varint(inner, pos)
                offset = _int64(base_offset + delta)
            if (byte := inner[pos]) < 128:
                size = zigzag[byte]
                pos += 1
            else:
                size, pos = read_varint(inner, pos)
            key = None if size < 0 else inner[pos : (pos := pos + size)]
            if (byte := inner[pos]) < 128:
                size = zigzag[byte]
                pos += 1
            elif (high := inner[pos + 1]) < 128:
                raw = byte & 127 | high << 7
                size = (raw >> 1) ^ -(raw & 1)
                pos += 2
            else:
                size, pos = read_varint(inner, pos)
            value = None if size < 0 else inner[pos : (pos := pos + size)]
            headers: list[tuple[str, bytes | None]] = []
            pos = _read_headers(inner, pos, headers) if inner[pos] else pos + 1
            if pos != end or end > size_bytes:
                raise CorruptBatch(f"a record that should end at byte {end} ends at {pos}")
            yield Record(offset, timestamp, key, value, headers)
    except IndexError:
        raise CorruptBatch("a batch ends within a record") from None
    if pos != size_bytes:
        raise CorruptBatch(f"{size_bytes - pos} bytes follow the last record of a batch")


def _last_byte_below(header: BatchHeader) -> int:
    """Return the bound below which a byte is the last one of a delta, for the fast path.

    It is 0 if adding a short delta could overflow int64; then no delta takes the fast path.
    """
    low, high = _INT64_MIN + _SHORT_DELTA_MAX, _INT64_MAX - _SHORT_DELTA_MAX
    safe = low <= header.base_offset <= high and low <= header.base_timestamp <= high
    return 128 if safe else 0


def _int64(value: int) -> int:
    """`value` wrapped around to int64 as in Java."""
    return (value - _INT64_MIN) % (1 << 64) + _INT64_MIN


def _read_headers(inner: bytes, pos: int, headers: list[tuple[str, bytes | None]]) -> int:
    """Append the headers of a record at `pos` to `headers`; return the position after them.

    Raises CorruptBatch. The caller checks that the position is within the record: slices past the
    end raise nothing.
    """
    count, pos = read_varint(inner, pos)
    if not 0 <= count <= len(inner) - pos:
        raise CorruptBatch(f"a record cannot hold {count} headers")
    for _ in range(count):
        size, pos = read_varint(inner, pos)
        if size < 0:
            raise CorruptBatch(f"the key of a record header has a size of {size}")
        key = inner[pos : pos + size].decode("utf-8", "surrogateescape")
        pos += size
        size, pos = read_varint(inner, pos)
        value = None
        if size >= 0:
            value = inner[pos : pos + size]
            pos += size
        headers.append((key, value))
    return pos
