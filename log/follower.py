"""Appends batches from the leader; offsets, leader epochs and timestamps stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codecs.batches import BatchHeader, CorruptBatch, check_crc, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.log.append_result import AppendResult
from kwire.log.error import LogError
from kwire.log.producers.replay import marker_of
from kwire.log.recovery.truncation import truncate_fully
from kwire.log.segment import RELATIVE_OFFSET_MAX, Segment

if TYPE_CHECKING:
    from kwire.log.log import Log


def append_as_follower(
    log: Log, batches: bytearray | memoryview, *, leader_epoch: int, now_ms: int
) -> AppendResult | None:
    """Append the complete batches of a Fetch response; returns None if nothing was appended.

    A batch of a later epoch than `leader_epoch`, and all batches behind it, are left out: this
    follower does not follow their leader yet (KAFKA-18723).  Raises LogError: CORRUPT_MESSAGE for a
    wrong CRC, OFFSET_OUT_OF_RANGE if offsets do not ascend from the log end offset.  Batches before
    the invalid one stay appended.
    """
    log.check_online()
    view = memoryview(batches)
    first_offset = log.log_end_offset
    appended: list[BatchHeader] = []
    run = _Run(log, view, now_ms)
    try:
        for position, header in iter_batches(view):
            if header.partition_leader_epoch > leader_epoch:
                break
            check_crc(view, position, header)
            run.add(position, header)
            appended.append(header)
    except CorruptBatch as error:
        raise LogError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    finally:
        run.write()
    if not appended:
        return None
    return AppendResult(
        max(first_offset, appended[0].base_offset),
        appended[-1].last_offset,
        -1,
        log.log_start_offset,
        False,
        sum(header.records_count for header in appended),
        sum(header.size_bytes for header in appended),
    )


class _Run:
    """Consecutive batches of one leader epoch that go into one segment with one write.

    The epoch is written before the batches, so a disk error in either step changes nothing.  The
    producer state is updated right after the write: it covers every batch in the log.
    """

    def __init__(self, log: Log, view: memoryview, now_ms: int) -> None:
        """Begin an empty run at the end of `log`; `view` holds the batches that `add` is given."""
        self._log = log
        self._view = view
        self._now_ms = now_ms
        self._start = 0
        self._size = 0
        self._headers: list[BatchHeader] = []
        self._next_offset = log.log_end_offset

    def add(self, position: int, header: BatchHeader) -> None:
        """Add the batch at `position` of the view; write the run first where a new one must begin.

        A new run begins with each leader epoch and each segment. Raises LogError
        OFFSET_OUT_OF_RANGE if the batch does not continue the log.
        """
        first = header.base_offset if header.magic == 2 else header.last_offset
        if first < self._next_offset <= header.last_offset:
            self._begin_within(first)
        if first < self._next_offset or header.last_offset < first:
            raise LogError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"a batch from {first} on, but the log continues at {self._next_offset}",
            )
        if (
            self._headers
            and self._headers[0].partition_leader_epoch < header.partition_leader_epoch
        ):
            self.write()
        if self._must_roll(header):
            self.write()
            self._log.rolling.roll(first, self._now_ms)
        if not self._headers:
            self._start = position
        self._headers.append(header)
        self._size += header.size_bytes
        self._next_offset = header.last_offset + 1

    def _begin_within(self, first: int) -> None:
        """Let an empty log begin at `first`, before its log start offset, and keep the latter.

        After DeleteRecords the leader's log may begin within a batch.  A follower without records
        gets that batch whole.
        """
        log, start = self._log, self._log.log_start_offset
        if start == log.log_end_offset == self._next_offset:
            truncate_fully(log, first, self._now_ms, log_start_offset=start)
            self._next_offset = first

    def _must_roll(self, header: BatchHeader) -> bool:
        """Return whether the batch needs a new segment.

        This is so if the active one, with the run, is full or due, or if the batch is too far from
        its base offset for an index entry (`RELATIVE_OFFSET_MAX`).
        """
        log = self._log
        segment = log.segments.active
        size = segment.size_bytes + self._size
        too_far = header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        return too_far or (
            bool(size)
            and (
                size + header.size_bytes > log.config.segment_bytes
                or segment.indexes_full
                or log.rolling.is_due(segment, header.max_timestamp, self._now_ms)
            )
        )

    def write(self) -> None:
        """Write the added batches, and update segment and producers by each."""
        headers, self._headers = self._headers, []
        if not headers:
            return
        log = self._log
        segment = log.segments.active
        position = segment.size_bytes
        data = self._view[self._start : self._start + self._size]
        if headers[0].partition_leader_epoch > log.epochs.latest_epoch:
            log.assign_epoch(headers[0].partition_leader_epoch, headers[0].base_offset)
        try:
            segment.write(position, data, self._size)
        except OSError as error:
            raise log.storage.refused(error) from error
        self._size = 0
        at = 0
        for header in headers:
            segment.note_batch(
                position + at, header.size_bytes, header.last_offset, header.max_timestamp
            )
            log.log_end_offset = header.last_offset + 1
            self._note(segment, header, data[at : at + header.size_bytes])
            at += header.size_bytes
        log.producers.end_offset = log.log_end_offset
        log.upkeep[log] = None

    def _note(self, segment: Segment, header: BatchHeader, batch: memoryview) -> None:
        log = self._log
        if header.producer_id >= 0:
            log.note_producer(segment, header, header.base_offset, marker_of(batch, header))
