"""Producer state snapshots: `<offset>.snapshot`, the state before that offset.

Kafka's ProducerSnapshot, big endian:

    version  int16   1
    crc      uint32  CRC-32C of all that follows
    count    int32
    count times, 46 bytes:
        producer id             int64
        epoch                   int16
        last sequence           int32   -1 if none
        last offset             int64   -1 if none
        offset delta            int32   last offset less first offset of the last batch
        timestamp               int64   largest of the last batch, or of the last marker
        coordinator epoch       int32
        current txn first offset int64  -1 if none

Only the newest batch of a producer is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from struct import Struct

from kwire.codecs import crc32c
from kwire.log.error import CorruptFile
from kwire.log.producers.entry import ProducerEntry, WrittenBatch

VERSION = 1
_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the bytes of a snapshot file, in Kafka's format, sorted by producer id.

    Only entries that changed since the last call are packed: the loop waits for this.
    """
    ordered = sorted(entries, key=attrgetter("producer_id"))
    body = _COUNT.pack(len(ordered)) + b"".join([entry.packed or _pack(entry) for entry in ordered])
    return _HEADER.pack(VERSION, crc32c.crc32c(body)) + body


def _pack(entry: ProducerEntry) -> bytes:
    """Return the bytes of one entry, which keeps them."""
    packed = entry.packed = _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_offset,
        entry.last_offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )
    return packed


def decode(data: bytes) -> list[ProducerEntry]:
    """Return the producers of a snapshot file; raises CorruptFile if any byte is not as written."""
    if len(data) < _HEADER.size + _COUNT.size:
        raise CorruptFile("a producer snapshot is cut short")
    version, crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(f"unknown producer snapshot version {version}")
    body = data[_HEADER.size :]
    if crc32c.crc32c(body) != crc:
        raise CorruptFile("a producer snapshot's CRC does not hold")
    entries = body[_COUNT.size :]
    count: int = _COUNT.unpack_from(body)[0]
    if len(entries) != count * _ENTRY.size:
        raise CorruptFile(f"a producer snapshot of {count} entries has {len(entries)} bytes")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(entries)]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    """Return the producer of one entry of a snapshot file.

    A negative last offset means that it has no batches, only an epoch or a marker.
    """
    batches = None
    if last_offset >= 0:
        batches = [WrittenBatch(last_sequence, last_offset, offset_delta, timestamp)]
    return ProducerEntry(
        producer_id, epoch, coordinator_epoch, timestamp, max(txn_first_offset, -1), batches
    )
