"""Reading a partition's log: which bytes of which segment a Fetch gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codecs.batch_layout import LENGTH, LENGTH_POS, LOG_OVERHEAD
from kwire.codecs.batches import CorruptBatch
from kwire.codecs.errors import ErrorCode
from kwire.log.error import LogError
from kwire.log.reading import time_lookup
from kwire.log.reading.aborted import ensure_checked
from kwire.log.reading.cold_lookup import ColdLookup, cold_lookup
from kwire.log.reading.region import Region, read_exactly
from kwire.log.reading.residency import TAIL_BYTES
from kwire.log.recovery import epoch_check
from kwire.log.segmented_log import SegmentedLog

if TYPE_CHECKING:
    from kwire.log.reading.time_lookup import TimestampOffset
    from kwire.log.segment import Segment

POSITIONS_KEPT = 256
"""Offsets whose place is remembered: where consumers, often several, have begun to read, and the
end of the log, where they wait."""


class ReadableLog(SegmentedLog):
    """The half of a log that consumers and followers use."""

    __slots__ = ()

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int, min_one_batch: bool
    ) -> Region | None:
        """What a Fetch from `offset` gets, or None if there is nothing for it yet.

        The batch that holds `offset` (or the next one) comes first, so records before `offset`
        may come with it.  The region holds nothing from `max_offset` on, comes from one segment
        and is cut at `max_bytes`, in the middle of a batch if need be, as Apache Kafka does.  A
        first batch that is larger is given whole with `min_one_batch` (KIP-74), else not at all.
        LogError OFFSET_OUT_OF_RANGE if `offset` is before the log's start or behind its end.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise LogError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{offset} is not within [{self.log_start_offset}, {end}]",
            )
        if offset >= max_offset:
            if offset == end and offset not in self._positions:
                self._remember(offset, self.segments.active, self.segments.active.size_bytes)
            return None
        if self.offline:
            self.check_online()
        try:
            place = self._positions.get(offset)
            if place is None and (place := self._locate(offset)) is not None:
                self._remember(offset, *place)  # others read what one has read
            if place is not None and place[1] == place[0].size_bytes:
                # the end of a segment that has been rolled since
                following = self.segments.after(place[0])
                place = None if following is None else (following, 0)
            if place is None:
                return None
            return self._slice(offset, *place, max_bytes, max_offset, min_one_batch)
        except (OSError, CorruptBatch) as error:
            raise self._read_failed(error) from error

    def cold_lookup(self, offset: int) -> ColdLookup | None:
        """What to have a thread read before `read` from `offset` on; None: it waits for nothing."""
        segment = self.segments.active
        place = self._positions.get(offset)
        if place is not None:
            if place[0] is segment and segment.size_bytes - place[1] < TAIL_BYTES:
                return None
            segment = place[0]
        elif offset < segment.base_offset:
            floor = self.segments.floor(offset)
            if floor is None:
                return None
            segment = floor
        return cold_lookup(segment, offset)

    def _slice(
        self,
        offset: int,
        segment: Segment,
        position: int,
        max_bytes: int,
        max_offset: int,
        min_one_batch: bool,
    ) -> Region | None:
        at_end = max_offset >= self.log_end_offset
        limit = segment.size_bytes if at_end else self._position_of(segment, max_offset)
        size = limit - position
        if size > max_bytes:
            size = self._cut(segment, position, size, max_bytes, min_one_batch)
        elif at_end and segment is self.segments.active:
            self._remember(self.log_end_offset, segment, limit)
        if size <= 0:
            return None
        segment.recently_used = True
        file = segment.file or segment.open()
        return Region(file, position, size, offset, self.files, segment.base_offset)

    def _cut(
        self, segment: Segment, position: int, size: int, max_bytes: int, min_one_batch: bool
    ) -> int:
        """How much of the `size` bytes there are is given where `max_bytes` are allowed."""
        if max_bytes <= 0 and not min_one_batch:
            return 0
        head = read_exactly(self.files, segment.open(), position + LENGTH_POS, 4)
        first_batch: int = min(LENGTH.unpack(head)[0] + LOG_OVERHEAD, size)
        if first_batch <= max_bytes:
            return max_bytes
        return first_batch if min_one_batch else 0

    def _read_failed(self, error: Exception) -> LogError:
        if isinstance(error, OSError):
            return self.storage_refused(error)
        return LogError(ErrorCode.CORRUPT_MESSAGE, str(error))

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        if len(self._positions) >= POSITIONS_KEPT:
            self._positions.clear()
        self._positions[offset] = segment, position

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Where the first batch is that ends at or after `offset`."""
        for segment in self.segments.from_floor(offset):
            if segment.base_offset >= offset:
                if segment.size_bytes:
                    return segment, 0
            elif (found := segment.find(offset)) is not None:
                return segment, found[0]
        return None

    def _position_of(self, segment: Segment, max_offset: int) -> int:
        """Where in `segment` the batches that may be read end."""
        place = self._positions.get(max_offset)
        if place is None:
            floor = self.segments.floor(max_offset)
            if floor is None or floor.base_offset < segment.base_offset:
                return 0
            found = floor.find(max_offset)
            place = floor, floor.size_bytes if found is None else found[0]
            self._remember(max_offset, *place)
        if place[0] is segment:
            return place[1]
        return segment.size_bytes if place[0].base_offset > segment.base_offset else 0

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after `timestamp` (ms), None if there is none."""
        try:
            return time_lookup.first_at_or_after(self, timestamp)
        except (OSError, CorruptBatch) as error:
            raise self._read_failed(error) from error

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp of all (KIP-734), None if empty."""
        try:
            return time_lookup.largest(self)
        except (OSError, CorruptBatch) as error:
            raise self._read_failed(error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch up to `epoch`; (-1, -1) if unknown (KIP-101)."""
        self._check_epochs()
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_for(self, offset: int) -> int | None:
        """The epoch in which `offset` was written, None if that is not known."""
        self._check_epochs()
        return self.epochs.epoch_for(offset)

    def _check_epochs(self) -> None:
        if not self.epochs.checked:
            try:
                epoch_check.ensure_checked(self)
            except (OSError, CorruptBatch) as error:
                raise self._read_failed(error) from error

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that overlap the range."""
        found: list[tuple[int, int]] = []
        try:
            for segment in self.segments.from_floor(from_offset):
                if not segment.txn_index.checked:
                    ensure_checked(self, segment)
                aborted, complete = segment.txn_index.collect(from_offset, to_offset)
                found += [(entry.producer_id, entry.first_offset) for entry in aborted]
                if complete:
                    break
        except (OSError, CorruptBatch) as error:
            raise self._read_failed(error) from error
        return found

    def aborted_in(self, region: Region) -> list[tuple[int, int]]:
        """The aborted transactions that a read_committed reader of `region` must know.

        The index tells where the region ends within a few batches, on the large side, so one too
        many may be named; that is what Apache Kafka does.
        """
        segment = self.segments.floor(region.segment_base_offset)
        bound = None
        if segment is not None and segment.base_offset == region.segment_base_offset:
            try:
                bound = segment.offset_index.upper_bound(region.position, region.size_bytes)
            except OSError as error:
                raise self._read_failed(error) from error
            if bound is None and (following := self.segments.after(segment)) is not None:
                bound = following.base_offset
        return self.aborted_transactions(
            region.base_offset, self.log_end_offset if bound is None else bound
        )
