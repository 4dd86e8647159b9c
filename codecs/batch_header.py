"""The header of a record batch, in the current format (magic 2) and in magic 0 and 1.

`batch_layout` has the positions of the fields.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import NamedTuple

from kwire.codecs import crc32c
from kwire.codecs.batch_layout import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_END,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LEGACY_LENGTHS_MIN,
    LENGTH,
    LENGTH_POS,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POS,
    SEQUENCE_RANGE,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.compression import Compression
from kwire.codecs.inflating import Buffer
from kwire.codecs.record import CorruptBatch, TimestampType

_LEGACY_CRC_END = 16
_LEGACY_HEADER = Struct(">qiIbb")  # offset, length, crc, magic, attributes; magic 1: timestamp q
_TIMESTAMP = Struct(">q")

_CODECS = tuple(Compression)
_TIMESTAMP_TYPES = tuple(TimestampType)


class BatchHeader(NamedTuple):
    """The fields of a header in the order of the wire.

    A message of magic 0 or 1 looks like a batch of one record.  If it is compressed, it wraps
    several messages, has the offset of the last one, and records_count -1 (unknown).
    """

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record, also when compaction has removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers start again at 0 after 2^31-1."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_RANGE

    @property
    def compression(self) -> Compression:
        """The codec.  Raises CorruptBatch for an unknown number."""
        codec = self.attributes & CODEC_MASK
        if codec >= len(_CODECS):
            raise CorruptBatch(f"unknown compression codec {codec}")
        return _CODECS[codec]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps."""
        # The low three bits are the codec.
        return _TIMESTAMP_TYPES[self.attributes >> 3 & 1]

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction: as its records, or as its marker."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch has a control record, which consumers do not see."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether base_timestamp is the time from which the cleaner may drop tombstones or the
        marker of this batch."""
        return self.attributes & DELETE_HORIZON_FLAG != 0


header_of: Callable[[tuple[int, ...]], BatchHeader] = partial(tuple.__new__, BatchHeader)
"""Make a header of the fields that HEADER unpacks: like `_make`, without a call of Python code."""


def read_header(data: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header at `pos`.

    Raises CorruptBatch if it is cut short, or magic or length is invalid.

    It checks neither the CRC nor whether the rest of the batch follows.
    """
    if len(data) - pos >= HEADER_SIZE and data[pos + MAGIC_POS] == MAGIC:
        header = header_of(HEADER.unpack_from(data, pos))
        if header.length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"a batch of length {header.length} cannot hold its header")
        return header
    return _read_legacy_header(data, pos)


def _read_legacy_header(data: Buffer, pos: int) -> BatchHeader:
    """Return the header of the message of magic 0 or 1 at `pos`, in the form of a batch header.

    Raises CorruptBatch, also for a header that is cut short or has an unknown magic. Fields that
    these formats lack are -1; the record count of a compressed message is unknown (-1).
    """
    available = len(data) - pos
    if available <= MAGIC_POS:
        raise CorruptBatch(f"a batch header is cut short after {max(available, 0)} bytes")
    magic = data[pos + MAGIC_POS]
    if magic > MAGIC:
        raise CorruptBatch(f"unknown magic {magic}")
    size_bytes_min = HEADER_SIZE if magic == MAGIC else LOG_OVERHEAD + LEGACY_LENGTHS_MIN[magic]
    if available < size_bytes_min:
        raise CorruptBatch(f"a batch header is cut short after {available} bytes")
    offset, length, crc, magic, attributes = _LEGACY_HEADER.unpack_from(data, pos)
    if length < LEGACY_LENGTHS_MIN[magic]:
        raise CorruptBatch(f"a message of length {length} cannot hold its header")
    timestamp = -1 if magic == 0 else _TIMESTAMP.unpack_from(data, pos + _LEGACY_HEADER.size)[0]
    count = -1 if attributes & CODEC_MASK else 1
    return BatchHeader(
        offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count
    )


def check_crc(data: Buffer, pos: int, header: BatchHeader) -> None:
    """Raise CorruptBatch unless the batch at `pos` is whole and has the CRC of its header."""
    end = pos + header.length + LOG_OVERHEAD
    if end > len(data):
        raise CorruptBatch(f"a batch of {header.size_bytes} bytes is cut short")
    if header.magic == MAGIC:
        crc = crc32c.crc32c(memoryview(data)[pos + CRC_END : end])
    else:
        crc = zlib.crc32(memoryview(data)[pos + _LEGACY_CRC_END : end])
    if crc != header.crc:
        raise CorruptBatch(f"the batch's CRC is {crc:#010x}, its header says {header.crc:#010x}")


def iter_batches(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch of `data`.

    A batch cut short at the end ends the iteration, as a Fetch response may end in the middle of
    a batch.  Raises CorruptBatch for an invalid header.
    """
    pos = 0
    size_bytes = len(data)
    while size_bytes - pos > MAGIC_POS:
        length: int = LENGTH.unpack_from(data, pos + LENGTH_POS)[0]
        if length >= LEGACY_LENGTHS_MIN[0] and length + LOG_OVERHEAD > size_bytes - pos:
            return
        header = read_header(data, pos)
        yield pos, header
        pos += header.length + LOG_OVERHEAD
