"""Reads the records to apply from a slice of a coordinator's log, without the replaced ones.

A group commits the same partitions again and again, and the log keeps all of these records until
it is compacted: of 200 MB written in hours, some kilobytes matter.  If a machine lists a key prefix
in `replaced_keys`, only the last record of each such key in a slice is decoded and applied, at its
own position among the other records.  The result is the same as after compaction.

Two things are never skipped:

- A tombstone does not replace earlier records: they may have started what the tombstone ends.
- Records before a transactional record or a marker are all released first: the machine decides
  when transactional records count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.codecs import batches, record_keys
from kwire.codecs.batch_layout import CODEC_MASK, HEADER_SIZE, MAGIC

NO_PRODUCER_ID = -1


class ReplayedRecord(NamedTuple):
    """A record to apply; `producer_id` is -1 unless it belongs to a client's transaction."""

    producer_id: int
    key: bytes | None
    value: bytes | None


class ReplayedTransactionEnd(NamedTuple):
    """A marker: the producer's transaction ended."""

    producer_id: int
    commit: bool


class ReplaySlice:
    """Some batches of a log.  Iterate once; `records` and `end_offset` are valid after that."""

    def __init__(self, data: bytes, replaced_keys: tuple[bytes, ...]) -> None:
        """`data` has whole batches; only the last record of a replaced key is applied.

        `replaced_keys` has prefixes of the keys for which a record replaces the earlier ones.
        """
        self._data = data
        self._replaced_keys = replaced_keys
        self._last: dict[bytes | int, tuple[bytes | None, bytes, int]] = {}
        """Key (or the record's number, if nothing may replace it) -> key, data and position of
        the value in data.  Ordered by the last record of each key."""
        self.records = 0
        """Number of records read, replaced ones included."""
        self.end_offset = -1
        """Offset after the last batch read."""

    def __iter__(self) -> Iterator[ReplayedRecord | ReplayedTransactionEnd]:
        """Yield what to apply, in log order.  Raises CorruptBatch."""
        for position, header in batches.iter_batches(self._data):
            self.end_offset = header.last_offset + 1
            if header.magic == MAGIC and header.producer_id < 0 and not header.is_control:
                self._collect(position, header)
            else:
                # Keep the order with transactional records: release what was collected first.
                yield from self._release()
                yield from self._producer_records(position, header)
        yield from self._release()

    def _collect(self, position: int, header: batches.BatchHeader) -> None:
        """Keeps the records of a plain batch; drops the earlier records that they replace."""
        data, start, end = self._data, position + HEADER_SIZE, position + header.size_bytes
        if header.attributes & CODEC_MASK:
            data = batches.inner_bytes(data, position, header)
            start, end = 0, len(data)
        last, replaced_keys = self._last, self._replaced_keys
        for key, at in record_keys.scan(data, start, end, header.records_count):
            self.records += 1
            if key and key.startswith(replaced_keys) and data[at] != record_keys.NULL:
                last.pop(key, None)
                last[key] = key, data, at
            else:
                last[self.records] = key, data, at

    def _release(self) -> Iterator[ReplayedRecord]:
        for key, data, at in self._last.values():
            yield ReplayedRecord(NO_PRODUCER_ID, key, record_keys.value_at(data, at))
        self._last.clear()

    def _producer_records(
        self, position: int, header: batches.BatchHeader
    ) -> Iterator[ReplayedRecord | ReplayedTransactionEnd]:
        """Yield the records of a producer's batch, and the markers of its transactions.

        They are applied in the log's order: a marker decides about the records before it.
        """
        for record in batches.records(self._data, position):
            if not header.is_control:
                self.records += 1
                yield ReplayedRecord(header.producer_id, record.key, record.value)
            elif (marker := batches.read_marker(record)) is not None:
                yield ReplayedTransactionEnd(
                    header.producer_id, marker.kind is batches.ControlType.COMMIT
                )
