"""A record, and the words that the readers and writers of record batches share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class CorruptBatch(ValueError):
    """The bytes are not a record batch that Apache Kafka could have written.

    Reading batches raises no other exception, whatever the bytes are.
    """


class OversizedRecord(CorruptBatch):
    """A record of a compressed batch is larger than max.decompressed.message.bytes."""

    def __init__(self, record_bytes_max: int) -> None:
        """`record_bytes_max` is the limit, in bytes of the decompressed record."""
        super().__init__(f"a record is larger than {record_bytes_max} bytes")


class TimestampType(IntEnum):
    """Who set a batch's timestamps: bit 3 of its attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@dataclass(slots=True)
class Record:
    """One record of a partition.

    `timestamp` is in milliseconds since the epoch, -1 where the format (magic 0) has none.
    Header keys are UTF-8; bytes that are not are kept as lone surrogates, so that a record which is
    read and written again (compaction) keeps its bytes.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
