"""Record batches: the unit in which records are sent, stored, compressed and checked.

Other rooms import this module, which gathers the parts.  Code that reads a batch's bytes without
decoding it also imports `batch_layout`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.codecs.batch_builder import build, build_pairs, recompress, seal
from kwire.codecs.batch_header import BatchHeader, check_crc, header_of, iter_batches, read_header
from kwire.codecs.batch_layout import HEADER, HEADER_SIZE, LOG_OVERHEAD
from kwire.codecs.batch_reader import (
    check_sizes,
    inner_bytes,
    is_plausible,
    iter_limited,
    iter_records,
)
from kwire.codecs.compression import Compression
from kwire.codecs.control import ControlType, EndTxnMarker, control_batch, read_marker
from kwire.codecs.inflating import INFLATED_SIZE_BYTES_MAX, Buffer
from kwire.codecs.record import CorruptBatch, OversizedRecord, Record, TimestampType

__all__ = [
    "HEADER",
    "HEADER_SIZE",
    "INFLATED_SIZE_BYTES_MAX",
    "LOG_OVERHEAD",
    "BatchHeader",
    "Compression",
    "ControlType",
    "CorruptBatch",
    "EndTxnMarker",
    "OversizedRecord",
    "Record",
    "TimestampType",
    "build",
    "build_pairs",
    "check_crc",
    "check_sizes",
    "control_batch",
    "header_of",
    "inner_bytes",
    "is_plausible",
    "iter_batches",
    "read_header",
    "read_marker",
    "recompress",
    "records",
    "seal",
]


def records(
    data: Buffer,
    pos: int = 0,
    size_bytes_max: int = INFLATED_SIZE_BYTES_MAX,
    record_bytes_max: int | None = None,
) -> Iterator[Record]:
    """Return the records of the batch at `pos`, decompressed to at most `size_bytes_max`.

    Raises CorruptBatch, when called or while iterating, for a batch that Apache Kafka cannot read,
    and OversizedRecord where a record of a compressed batch has more than `record_bytes_max`.  It
    does not check the batch's CRC: see `check_crc`.
    """
    header = read_header(data, pos)
    if header.magic < 2:
        from kwire.codecs.legacy import iter_legacy_records

        return iter_legacy_records(data, pos, header, size_bytes_max, record_bytes_max)
    inner = inner_bytes(data, pos, header, size_bytes_max)
    if record_bytes_max is not None and header.compression != Compression.NONE:
        return iter_limited(inner, header, record_bytes_max)
    return iter_records(inner, header)
