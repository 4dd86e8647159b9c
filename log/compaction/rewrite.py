"""One pass over one log: collects the keys of its dirty part, then filters it group by group.

The log itself is not changed: each group becomes a `.cleaned` segment beside it, which the log's
owner swaps in (`swap.py`).  A pass needs only paths and settings, so it runs in a separate process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from kwire.codecs.batches import BatchHeader, CorruptBatch, records
from kwire.log.compaction.batch_filter import BatchFilter, marker_at, records_of
from kwire.log.compaction.cleaned_segment import CleanedSegment
from kwire.log.compaction.key_scan import BatchKeys, scan_keys, short_key
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.source import CleaningSource, Throttle
from kwire.log.compaction.task import Answer, CleaningTask, PassDone, PassFailed
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.log.directory import files as names
from kwire.log.directory.files import Files

_RELATIVE_OFFSET_MAX = 2**31 - 1
_NS_PER_MS = 1_000_000


def clean(task: CleaningTask, files: Files) -> Iterator[Answer]:
    """Run the pass; yields GroupCleaned for each group, then PassDone; PassFailed ends it."""
    try:
        yield from _Rewriting(task, files).run()
    except OSError as error:
        yield PassFailed(error.errno or 0, str(error))
    except CorruptBatch as error:
        yield PassFailed(0, str(error))


class _Rewriting:
    def __init__(self, task: CleaningTask, files: Files) -> None:
        """Prepare a pass: nothing is read yet."""
        self.task = task
        self.files = files
        self.throttle = Throttle(task.bytes_per_second)
        self.source = CleaningSource(task, files, self.throttle)
        self.offsets = OffsetMap(task.end_offset, task.map_bytes_max)
        self.bytes_written = 0

    def run(self) -> Iterator[Answer]:
        """Yield the answer for each group of segments that was cleaned, then PassDone.

        The caller swaps the segments of a group before it asks for the next. Raises OSError and
        CorruptBatch.
        """
        self._remove_leftovers()
        began = time.monotonic()
        note_keys(self.task, self.source, self.offsets)
        noted = time.monotonic()
        bases = [base for base, _ in self.task.segments]
        clean_bases = [base for base in bases if base < self.task.first_dirty]
        horizon_ns = 0  # up to here tombstones of magic 0 and 1 may go
        if clean_bases:
            retention_ns = self.task.delete_retention_ms * _NS_PER_MS
            horizon_ns = self.source.modified_ns(clean_bases[-1]) - retention_ns
        transactions = CleanedTransactions()
        batch_filter = BatchFilter(self.task, self.offsets, transactions)
        for group in self._groups([base for base in bases if base < self.task.end_offset]):
            transactions.kept = []
            yield self._clean_group(group, batch_filter, transactions, horizon_ns)
        yield PassDone(
            self.offsets.first_offset,
            len(self.offsets),
            self.source.bytes_read,
            self.bytes_written,
            int((noted - began) * 1000),
            int((time.monotonic() - noted) * 1000),
        )

    def _remove_leftovers(self) -> None:
        """Remove `.cleaned` files of a killed worker.

        If they stayed, the loader would undo later swaps that had begun.
        """
        for path in sorted(Path(self.task.directory).glob(f"*{names.CLEANED}")):
            self.files.remove(path)

    # Groups

    def _groups(self, bases: list[int]) -> Iterator[list[int]]:
        """Yield groups of neighbours that fit into one segment, by bytes, index bytes and
        offsets.
        """
        index_max = self.task.segment_index_bytes
        group: list[int] = []
        total = (0, 0, 0)
        for base in bases:
            sizes = self._sizes(base)
            grown = (total[0] + sizes[0], total[1] + sizes[1], total[2] + sizes[2])
            fits = (
                grown[0] <= self.task.segment_bytes
                and max(grown[1:]) <= index_max
                and (not sizes[0] or self._span(group, base) <= _RELATIVE_OFFSET_MAX)
            )
            if group and not fits:
                yield group
                group, grown = [], sizes
            group.append(base)
            total = grown
        if group:
            yield group

    def _sizes(self, base: int) -> tuple[int, int, int]:
        """Return the bytes of a segment's log file, offset index and time index."""
        indexes = (
            self.source.path(base, suffix).stat().st_size
            for suffix in (names.OFFSET_INDEX, names.TIME_INDEX)
        )
        return (self.source.size_bytes(base), *indexes)  # type: ignore[return-value]  # three

    def _span(self, group: list[int], base: int) -> int:
        return self.source.end_offset(base) - 1 - group[0] if group else 0

    def _clean_group(
        self,
        group: list[int],
        batch_filter: BatchFilter,
        transactions: CleanedTransactions,
        horizon_ns: int,
    ) -> Answer:
        """Write one cleaned segment in place of the segments in `group`, and return its answer.

        The segments are given by their base offsets. Tombstones of magic 0 and 1 stay if their
        segment was modified after `horizon_ns`. On any error the new files are removed.
        """
        task = self.task
        segment = CleanedSegment(
            Path(task.directory), group[0], self.files, task.index_interval_bytes
        )
        try:
            for base in group:
                transactions.add(self.source.aborted(base, self.source.end_offset(base)))
                deletes_stay = self.source.modified_ns(base) > horizon_ns
                for data, at, header in self.source.batches(base):
                    left = batch_filter.apply(data, at, header, legacy_deletes_stay=deletes_stay)
                    if left:
                        _check_span(segment, header)
                        self.throttle.spend(len(left))
                        segment.add(left)
            self.bytes_written += segment.size_bytes
            return segment.finish(group, transactions.kept, self.source.modified_ns(group[-1]))
        except BaseException:
            segment.remove()
            raise


def _check_span(segment: CleanedSegment, header: BatchHeader) -> None:
    """Raise CorruptBatch if the batch is too far from the base offset for an index entry.

    An index entry has the distance as an int32.
    """
    if header.last_offset - segment.base_offset > _RELATIVE_OFFSET_MAX:
        raise CorruptBatch(
            f"offset {header.last_offset} is too far from its segment's, {segment.base_offset}"
        )


def note_keys(task: CleaningTask, source: CleaningSource, offsets: OffsetMap) -> None:
    """Collect the last record of each key, from the end backwards, while the map has room."""
    bases = [base for base, _ in task.segments if base < task.end_offset]
    bases = [base for base in bases if source.end_offset(base) > task.first_dirty]
    aborted = aborted_batches(task, source, bases)
    for base in reversed(bases):
        if not _note_segment(task, source, base, offsets, aborted):
            break
        offsets.passed(max(base, task.first_dirty))
    offsets.freeze()


def aborted_batches(task: CleaningTask, source: CleaningSource, bases: list[int]) -> set[int]:
    """Return the base offsets of the batches in these segments that belong to aborted
    transactions.
    """
    transactions = CleanedTransactions()
    found = set()
    for base in bases:
        overlapping = source.aborted(max(base, task.first_dirty), source.end_offset(base))
        transactions.add(overlapping)
        if not overlapping and not transactions.has_open:
            continue
        for data, at, header in source.batches(base):
            if header.is_control:
                marker, has_record = marker_at(data, at, header)
                if has_record:
                    transactions.is_empty(header, marker)
            elif transactions.is_aborted(header):
                found.add(header.base_offset)
    return found


def _note_segment(
    task: CleaningTask, source: CleaningSource, base: int, offsets: OffsetMap, aborted: set[int]
) -> bool:
    """Collect the keys of one segment; False if the map is full before its first batch."""
    for data, at, header in source.batches_backwards(base):
        if header.last_offset < task.first_dirty:
            return True
        if header.base_offset >= task.end_offset or header.is_control:
            continue
        if header.base_offset in aborted:
            continue
        found = _keys(data, at, header, task.record_bytes_max)
        if not offsets.has_room_for(len(found.keys)):
            return False
        offsets.add(found, header.base_offset, task.first_dirty)
    return True


def _keys(data: bytes, at: int, header: BatchHeader, record_bytes_max: int | None) -> BatchKeys:
    """Return the keys of the batch at `at` with their offsets; records without a key are left out.

    Raises CorruptBatch, also if a record of a compressed batch has more than `record_bytes_max`.
    `has_nulls` is False for magic 0 and 1, because `BatchFilter` examines each of their records
    anyway.
    """
    if header.magic == 2:
        inner, start, end = records_of(data, at, header, record_bytes_max)
        return scan_keys(inner, start, end, header)
    read = records(data, at, record_bytes_max=record_bytes_max)
    found = [(record.key, record.offset) for record in read]
    keyed = [(short_key(key), offset) for key, offset in found if key is not None]
    return BatchKeys([key for key, _ in keyed], [offset for _, offset in keyed], has_nulls=False)
