"""Filters one batch for the cleaner: it keeps all records, some, an empty batch, or nothing.

    a record stays if     it is the last of its key (or behind what was noted), and has a value, or
                          its batch's delete horizon is not set or has not come
    a batch goes if       no record of it stays, and it is neither the last data of a producer whose
                          state is kept nor the last of the round; those two are kept empty
    a marker stays until  nothing of its transaction is left; it then gets a delete horizon, too
    aborted records       go
    magic 0 and 1         become magic 2: Kafka 4 writes nothing older

The rules are those of Kafka's Cleaner.cleanInto and MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.codecs.batch_reader import inner_bytes
from kwire.codecs.batches import (
    HEADER_SIZE,
    BatchHeader,
    Compression,
    EndTxnMarker,
    check_crc,
    check_sizes,
    read_marker,
    records,
)
from kwire.log.compaction import batch_edit
from kwire.log.compaction.key_scan import ScannedRecord, entries, picked, scan_keys, short_key
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.task import CleaningTask
from kwire.log.compaction.transactions import CleanedTransactions

Bytes = bytes | bytearray | memoryview

_NOTHING = b""


def records_of(
    data: bytes, at: int, header: BatchHeader, record_bytes_max: int | None = None
) -> tuple[bytes, int, int]:
    """Return the decompressed records of the batch of magic 2 at `at`: (bytes, start, end).

    Raises CorruptBatch, also if a record of a compressed batch has more than `record_bytes_max`.
    """
    check_crc(data, at, header)
    if header.compression is Compression.NONE:
        return data, at + HEADER_SIZE, at + header.size_bytes
    inner = inner_bytes(data, at, header)
    check_sizes(inner, header.records_count, record_bytes_max)
    return inner, 0, len(inner)


def marker_at(data: bytes, at: int, header: BatchHeader) -> tuple[EndTxnMarker | None, bool]:
    """The marker in a control batch or None, and whether the batch has a record."""
    record = next(iter(records(data, at)), None)
    return (None, False) if record is None else (read_marker(record), True)


class BatchFilter:
    """Filters the batches of one round, which must be passed in order from the log's start on."""

    def __init__(
        self, task: CleaningTask, offsets: OffsetMap, transactions: CleanedTransactions
    ) -> None:
        """Prepare the filter of one round.

        `offsets` has the last offset of each key of the dirty part; `transactions` is filled by the
        caller, segment by segment. Tombstones and markers that get a delete horizon now are removed
        `delete.retention.ms` later.
        """
        self._offsets = offsets
        self._transactions = transactions
        self._now_ms = task.now_ms
        self._horizon_ms = task.now_ms + task.delete_retention_ms
        self._upper_bound = task.upper_bound
        self._record_bytes_max = task.record_bytes_max
        self._producers: Mapping[int, tuple[int, int]] = {
            producer_id: (offset, epoch) for producer_id, offset, epoch in task.producers
        }

    def apply(
        self, data: bytes, at: int, header: BatchHeader, *, legacy_deletes_stay: bool = True
    ) -> Bytes:
        """Return what is to be written for the batch at `at`; empty if that is nothing.

        `legacy_deletes_stay` keeps tombstones of magic 0 and 1, which have no delete horizon.
        Raises CorruptBatch if the batch has to be read and cannot be.
        """
        if header.magic < 2:
            return self._legacy(data, at, header, legacy_deletes_stay=legacy_deletes_stay)
        if header.is_control:
            left = self._control(data, at, header)
        elif self._transactions.is_aborted(header):
            left = _NOTHING
        else:
            left = self._data(data, at, header)
        if not left and self._keeps_empty(header):
            return batch_edit.emptied(header)
        return left

    def _keeps_empty(self, header: BatchHeader) -> bool:
        return header.last_offset + 1 == self._upper_bound or self._is_last_of_producer(header)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return whether only this batch has the producer's last sequence number or epoch."""
        last = self._producers.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        last_data_offset, epoch = last
        if last_data_offset >= 0:
            return header.last_offset == last_data_offset
        return header.is_control and header.producer_epoch == epoch

    # Magic 2

    def _control(self, data: bytes, at: int, header: BatchHeader) -> Bytes:
        """Return what stays of a control batch of magic 2; empty if it goes.

        A marker stays while records of its transaction are left. When none is left, it first gets a
        delete horizon (stored as the base timestamp), and a later round removes it after that time.
        """
        marker, has_record = marker_at(data, at, header)
        if not has_record:
            return _NOTHING
        if not self._transactions.is_empty(header, marker):
            return _whole(data, at, header)
        if header.has_delete_horizon:
            passed = header.base_timestamp <= self._now_ms
            return _NOTHING if passed else _whole(data, at, header)
        inner, start, end = records_of(data, at, header)
        kept = entries(inner, start, end, header.records_count)
        return batch_edit.with_horizon(header, inner, kept, self._horizon_ms)

    def _data(self, data: bytes, at: int, header: BatchHeader) -> Bytes:
        """Return what stays of a data batch of magic 2; empty if no record stays.

        The cheap tests come first: by offsets alone, then by keys without a copy of the records.
        Only the last way decides on each record.
        """
        if not header.records_count:
            return _NOTHING
        # As in Kafka a record above max.decompressed.message.bytes fails the round wherever it is.
        reads_all = self._record_bytes_max is not None and header.compression != Compression.NONE
        if (
            not reads_all
            and not header.has_delete_horizon
            and self._offsets.decides_by_offset(header.base_offset, header.last_offset)
        ):
            left = self._by_offset(data, at, header)
            if left is not None:
                return left
        inner, start, end = records_of(data, at, header, self._record_bytes_max)
        if self._is_untouched(inner, start, end, header):
            return _whole(data, at, header)
        found = entries(inner, start, end, header.records_count)
        kept = [entry for entry in found if self._stays(header, entry)]
        if not kept:
            return _NOTHING
        tombstones = not all(entry.has_value for entry in kept)
        if tombstones and not header.has_delete_horizon:
            return batch_edit.with_horizon(header, inner, kept, self._horizon_ms)
        if len(kept) == len(found):
            return _whole(data, at, header)
        return batch_edit.reduced(header, inner, kept)

    def _by_offset(self, data: bytes, at: int, header: BatchHeader) -> Bytes | None:
        """Return the filtered batch, by offsets only; None if the offsets of the batch have gaps.

        If the number of records fits, but not their deltas, the batch is kept whole, because its
        offsets are unknown.  No broker accepts such a batch.
        """
        base_offset = header.base_offset
        live = self._offsets.live(base_offset, header.last_offset)
        if not live:
            return _NOTHING
        if len(live) == header.records_count:
            return _whole(data, at, header)
        if header.records_count != header.last_offset_delta + 1:
            return None
        inner, start, _ = records_of(data, at, header)
        kept = picked(inner, start, [offset - base_offset for offset in live])
        if kept is None:
            return _whole(data, at, header)
        return batch_edit.reduced(header, inner, kept)

    def _is_untouched(self, inner: bytes, start: int, end: int, header: BatchHeader) -> bool:
        """Return whether no key of the batch was written again: the fast path for clean batches."""
        if header.last_offset >= self._offsets.first_offset:
            return False
        found = scan_keys(inner, start, end, header)
        return (
            len(found.keys) == header.records_count
            and not found.has_nulls
            and self._offsets.keys.isdisjoint(found.keys)
        )

    def _stays(self, header: BatchHeader, entry: ScannedRecord) -> bool:
        """Return whether the record stays: the last of its key, with a value or a live tombstone.

        A tombstone stays until its batch has a delete horizon and that time has passed. Behind the
        end of the offset map nothing was examined, so tombstones stay there.
        """
        offset = header.base_offset + entry.offset_delta
        if not self._is_last(entry.key, offset):
            return False
        if entry.has_value or offset >= self._offsets.end_offset:
            return True
        return not header.has_delete_horizon or self._now_ms < header.base_timestamp

    def _is_last(self, key: bytes | None, offset: int) -> bool:
        return self._offsets.is_last(None if key is None else short_key(key), offset)

    # Magic 0 and 1

    def _legacy(
        self, data: bytes, at: int, header: BatchHeader, *, legacy_deletes_stay: bool
    ) -> Bytes:
        """Return a batch of magic 2 with the records that stay of a batch of magic 0 or 1.

        Empty if none stays. Tombstones go at once, unless `legacy_deletes_stay`.
        """
        check_crc(data, at, header)
        kept = [
            record
            for record in records(data, at, record_bytes_max=self._record_bytes_max)
            if self._is_last(record.key, record.offset)
            and (
                record.value is not None
                or legacy_deletes_stay
                or record.offset >= self._offsets.end_offset
            )
        ]
        if not kept:
            return _NOTHING
        tombstones = any(record.value is None for record in kept)
        return batch_edit.modernized(header, kept, self._horizon_ms if tombstones else None)


def _whole(data: bytes, at: int, header: BatchHeader) -> memoryview:
    return memoryview(data)[at : at + header.size_bytes]
