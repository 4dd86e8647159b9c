"""The log of one partition: appends and reads, and the offsets at which the log begins and ends.

Nothing here is asynchronous or thread-safe: one loop owns a log.  Work that blocks for long (fsync,
removing files) is returned as a `Flush` or a list of paths.  A thread may carry it out, as it
shares no state with the log.

A log has several parts: `Storage`, `Segments`, `Rolling`, `Durability`, `Reader`, leader epochs
and producers.  Each part owns its state, and no part reads the state of another.  Modules that work
on whole logs (`follower`, `recovery/`, `upkeep/`, `compaction/`) take a log as an argument; this
module calls none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kwire.codecs import crc32c
from kwire.codecs.batch_layout import (
    CRC_END,
    FLAGS_POS,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    SEQUENCE_RANGE,
    START,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.batches import CorruptBatch, header_of
from kwire.codecs.errors import ErrorCode
from kwire.log.append_result import AppendResult
from kwire.log.config import LONG_MAX
from kwire.log.durability import Durability
from kwire.log.error import LogError
from kwire.log.origin import Origin
from kwire.log.plain import PlainBatches
from kwire.log.producers.entry import WrittenBatch
from kwire.log.producers.replay import marker_of
from kwire.log.reading.reader import Reader
from kwire.log.rolling import Rolling
from kwire.log.segment import RELATIVE_OFFSET_MAX
from kwire.log.validator import Validated, validate

if TYPE_CHECKING:
    from kwire.codecs.batches import BatchHeader
    from kwire.codecs.control import EndTxnMarker
    from kwire.log.config import LogConfig
    from kwire.log.leader_epochs import LeaderEpochCache
    from kwire.log.producers.entry import ProducerEntry
    from kwire.log.producers.snapshots import ProducerSnapshots
    from kwire.log.producers.state import CompletedTxn, ProducerState
    from kwire.log.producers.verification import Verification
    from kwire.log.reading.region import Region
    from kwire.log.segment import Segment
    from kwire.log.segments import Segments
    from kwire.log.storage import Storage
    from kwire.log.upkeep.flush import Flush

_unpack_header, _pack_header_into = HEADER.unpack_from, HEADER.pack_into
_patch = START.pack_into
# These take half of the time of AppendResult(...) and WrittenBatch(...).
_result: Callable[[tuple[int, ...]], AppendResult] = partial(tuple.__new__, AppendResult)
_written: Callable[[tuple[int, ...]], WrittenBatch] = partial(tuple.__new__, WrittenBatch)


@dataclass(slots=True, eq=False, repr=False)
class Log:
    """The log of one partition; `loader.load` or a `LogManager` creates it.

    log_start_offset        the first offset that may be read
    log_end_offset          the offset that the next record gets
    recovery_point          all records before it are on disk
    first_unstable_offset   the first offset of an open transaction, or of one whose marker is not
                            replicated yet; None if there is no such transaction
    """

    moves: ClassVar[int] = 0
    """How often the log start offset of any log has moved, or any log went offline.  Whoever has
    read many logs need not read them all again while this number is the same."""

    storage: Storage
    topic_id: bytes
    config: LogConfig
    segments: Segments
    epochs: LeaderEpochCache
    producers: ProducerState
    snapshots: ProducerSnapshots
    durability: Durability
    log_start_offset: int
    log_end_offset: int
    reader: Reader = field(init=False)
    rolling: Rolling = field(init=False)
    offline: bool = field(default=False, init=False)
    on_storage_failure: Callable[[OSError], None] | None = field(default=None, init=False)
    flush_inline: bool = field(default=True, init=False)
    """Whether an append that reaches `flush.messages` calls fsync before it returns.  An owner that
    clears this reads `flush_due` after each append, and calls `prepare_flush` itself before it
    acknowledges the append."""
    flush_due: bool = field(default=False, init=False)
    flushes_by_messages: bool = field(init=False)
    first_unstable_offset: int | None = field(default=None, init=False)
    first_dirty_offset: int | None = field(default=None, init=False)
    """The offset up to which the log is compacted (`cleaner-offset-checkpoint`), or None."""
    upkeep: dict[Log, None] = field(default_factory=dict, init=False)
    """The logs that changed since the last upkeep (`LogDirs.changed`); this log adds itself."""
    recompressed_records: int = field(default=0, init=False)
    """The records of appended batches that were compressed again, since the log was opened."""
    cancel_swap: Callable[[], None] | None = field(default=None, init=False)
    """Set while the cleaner replaces segments; called before other segments are removed."""
    _plain: PlainBatches = field(init=False)
    _segment_bytes: int = field(init=False)
    _epoch: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        """Build the parts that need the finished fields, and apply the configs."""
        self.reader = Reader(self.segments, self.storage.files)
        self.rolling = Rolling(self.storage, self.segments, self.producers, self.snapshots)
        self._plain = PlainBatches()
        self.storage.on_failure = self._disk_failed
        self.update_config(self.config)
        self.refresh_first_unstable()

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def topic(self) -> str:
        return self.storage.topic

    @property
    def partition(self) -> int:
        return self.storage.partition

    @property
    def dir(self) -> Path:
        return self.storage.dir

    @property
    def recovery_point(self) -> int:
        return self.durability.recovery_point

    def update_config(self, config: LogConfig) -> None:
        """Use changed topic configs from the next append on."""
        self.config = config
        self.upkeep[self] = None
        self.flushes_by_messages = config.flush_messages < LONG_MAX
        self._segment_bytes = config.segment_bytes
        self.rolling.configure(config)
        if not self.offline:
            self._plain.configure(config)

    # Appending

    def append(
        self,
        batches: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append one batch as the leader.

        Writes the base offset and the leader epoch into `batches`, which must be writable, and also
        the largest timestamp and the CRC if the topic's configs ask for it.  `verification` proves
        that the transaction coordinator knows the transaction (KIP-890).  `transaction_version` is
        read only for a transaction marker.

        Raises LogError if the batch is refused; then neither the log nor `batches` has changed.
        """
        size = len(batches)
        if size < HEADER_SIZE:
            self._validate(batches, origin, now_ms)  # raises: there is no header to unpack
        # `validate` may return another buffer (a recompressed batch), so the given one is kept.
        given, header = batches, header_of(_unpack_header(batches, 0))
        given_header = header
        # Most batches are plain: `validate` would change nothing in them.  They skip it, as it
        # reads every record.  The CRC is still checked, for it covers what no header field does.
        if origin is Origin.CLIENT and self._plain.holds(batches, size, header, now_ms):
            if crc32c.crc32c(memoryview(batches)[CRC_END:]) != header.crc:
                raise LogError(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match the batch")
            log_append_time_ms = -1
        elif origin is Origin.COORDINATOR and self._plain.holds_own(size, header.attributes):
            log_append_time_ms = -1  # this broker built the batch: not even its CRC is checked
        else:
            batches, header = validated = self._validate(batches, origin, now_ms)
            if validated.data.obj is not memoryview(given).obj:
                self.recompressed_records += header.records_count
            log_append_time_ms = now_ms if self.config.log_append_time else -1
        entry = marker = None
        try:
            if header.producer_id >= 0:
                # An idempotent producer's next batch needs one lookup, and not the full check.
                entry = self.producers.entry_in_sequence(header, origin, verification)
                if entry is None:
                    marker = marker_of(batches, header)
                    duplicate = self._check_producer(
                        header, origin, marker, verification, transaction_version
                    )
                    if duplicate is not None:  # the producer sent it again: nothing is written
                        return duplicate
            return self._append_valid(
                batches, header, leader_epoch, now_ms, log_append_time_ms, entry, marker
            )
        except LogError as error:
            # Validation and `_write` may have changed the header in place; the caller may offer
            # the same bytes again.
            _pack_header_into(given, 0, *given_header)
            self.producers.note_refused(header, origin, error.error, now_ms)
            raise

    def append_own(
        self, batch: bytearray, records_count: int, *, leader_epoch: int, now_ms: int
    ) -> None:
        """Append a batch of `records_count` records of the time `now_ms` that this broker built.

        It has no producer and base offset 0.  Nothing of it is checked, not even its CRC.  Raises
        LogError; the log is unchanged then.
        """
        size = len(batch)
        if not self._plain.holds_own(size, batch[FLAGS_POS]):  # or the log is offline
            self.append(batch, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
            return
        _, last_offset, flush = self._write(
            batch, size, records_count - 1, now_ms, leader_epoch, now_ms
        )
        self.producers.end_offset = last_offset + 1
        if flush is not None:
            self.durability.flush(flush, self.log_end_offset)

    def append_marker(
        self,
        batch: bytearray,
        header: BatchHeader,
        marker: EndTxnMarker,
        *,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int,
    ) -> None:
        """Append the marker of a transaction.  This broker built `batch`, whose header is `header`.

        Only the producer is checked.  Raises LogError if it may not end the transaction.
        """
        if self.config.log_append_time:  # `append` sets the timestamp and its type in the batch
            self.append(
                batch,
                leader_epoch=leader_epoch,
                now_ms=now_ms,
                origin=Origin.COORDINATOR,
                transaction_version=transaction_version,
            )
            return
        if self.offline:
            self.check_online()
        producers = self.producers
        producers.check_marker(header, marker, transaction_version)
        offset = self.log_end_offset
        segment, last_offset, flush = self._write(
            batch, len(batch), 0, header.max_timestamp, leader_epoch, now_ms
        )
        if header.producer_id >= 0:
            self.note_marker(segment, header, offset, marker)
        producers.end_offset = last_offset + 1
        if flush is not None:
            self.durability.flush(flush, self.log_end_offset)

    def _append_valid(
        self,
        batches: bytearray | memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        log_append_time_ms: int,
        entry: ProducerEntry | None,
        marker: EndTxnMarker | None,
    ) -> AppendResult:
        """Write the batch and update its producer's state: the only step that changes the log.

        `entry` is the producer if the batch is its next one; `marker` belongs to a control batch.
        """
        first_offset = self.log_end_offset
        delta, size = header.last_offset_delta, header.length + LOG_OVERHEAD
        segment, last_offset, flush = self._write(
            batches, size, delta, header.max_timestamp, leader_epoch, now_ms
        )
        if entry is not None:
            # The same as `note_producer`, without its lookups: the entry is known already.
            if entry.txn_first_offset < 0 and header.attributes & TRANSACTIONAL_FLAG:
                self.producers.begin_transaction(entry, first_offset)
                if self.first_unstable_offset is None:
                    self.first_unstable_offset = first_offset
            sequence = (header.base_sequence + delta) % SEQUENCE_RANGE
            written = _written((sequence, last_offset, delta, header.max_timestamp))
            entry.add(header.producer_epoch, written)
        elif header.producer_id >= 0:
            self.note_producer(segment, header, first_offset, marker)
        self.producers.end_offset = last_offset + 1
        if flush is not None:  # `flush.messages` is reached: not acknowledged before it is on disk
            self.durability.flush(flush, self.log_end_offset)
        return _result(
            (
                first_offset,
                last_offset,
                log_append_time_ms,
                self.log_start_offset,
                False,
                header.records_count,
                size,
            )
        )

    def _validate(self, batches: bytearray | memoryview, origin: Origin, now_ms: int) -> Validated:
        """Return the batch as it has to be stored, and its header.

        Raises LogError if the log is offline or the batch is invalid; `batches` is unchanged then.
        """
        self.check_online()
        original = bytes(batches[:HEADER_SIZE])
        try:
            return validate(
                batches,
                self.config,
                origin,
                now_ms,
                name=f"{self.topic}-{self.partition}",
                log_start_offset=self.log_start_offset,
            )
        except LogError:
            batches[: len(original)] = original
            raise

    def _check_producer(
        self,
        header: BatchHeader,
        origin: Origin,
        marker: EndTxnMarker | None,
        verification: Verification | None,
        transaction_version: int,
    ) -> AppendResult | None:
        """Return the result of the earlier append if this batch is a duplicate of it, else None.

        Raises LogError if the producer may not write the batch.
        """
        try:
            written = self.producers.check(
                header, origin, marker, verification, transaction_version
            )
        except LogError as error:
            error.log_start_offset = self.log_start_offset
            raise
        if written is None:
            return None
        return AppendResult(
            written.first_offset,
            written.last_offset,
            written.timestamp,
            self.log_start_offset,
            True,
            header.records_count,
            header.length + LOG_OVERHEAD,
        )

    def _write(
        self,
        batches: bytearray | memoryview,
        size: int,
        last_offset_delta: int,
        max_timestamp: int,
        leader_epoch: int,
        now_ms: int,
    ) -> tuple[Segment, int, Flush | None]:
        """Assign offsets to the batch of `size` bytes and write it into the active segment.

        Returns the segment, the batch's last offset, and the flush that is due with the batch or
        None.  Raises LogError; the log has the same records as before then.
        """
        first_offset = self.log_end_offset
        last_offset = first_offset + last_offset_delta
        if leader_epoch != self._epoch:
            # Before the batch is written: an epoch without records does no harm, records without
            # their epoch would make a follower truncate wrongly (KIP-101).
            self.assign_epoch(leader_epoch, first_offset)
            self._epoch = leader_epoch
        segment = self.segments.active
        position = segment.size_bytes
        # Cheap conditions first; an empty segment is not rolled for its age.
        if (
            position + size > self._segment_bytes
            or segment.indexes_full
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or (position and self.rolling.is_due(segment, max_timestamp, now_ms))
        ):
            segment = self.roll(now_ms)
            position = 0
        flush = None
        if (
            self.flushes_by_messages
            and last_offset + 1 - self.durability.recovery_point >= self.config.flush_messages
        ):
            if self.flush_inline:
                # The files are opened before the write: without a free descriptor the batch is
                # refused, and nothing of it is written.
                flush = self.durability.open(first_offset)
            else:
                self.flush_due = True  # the owner flushes in a thread
        # The CRC does not cover the base offset and the leader epoch, so it stays valid.
        _patch(batches, 0, first_offset, size - LOG_OVERHEAD, leader_epoch)
        try:
            segment.write(position, batches, size)
        except OSError as error:
            raise self.storage.refused(error) from error
        segment.note_batch(position, size, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        self.upkeep[self] = None
        return segment, last_offset, flush

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Record that `leader_epoch` begins at `start_offset`.  Raises LogError."""
        try:
            self.epochs.assign(leader_epoch, start_offset)
        except OSError as error:
            raise self.storage.refused(error) from error

    def note_producer(
        self, segment: Segment, header: BatchHeader, offset: int, marker: EndTxnMarker | None
    ) -> None:
        """Update the producer's state by a batch that was written at `offset`.

        A marker ends the producer's transaction; an aborted one gets an entry in the transaction
        index of `segment`.  Raises LogError if the index cannot be written.
        """
        self._complete(segment, self.producers.note(header, offset, marker))
        if marker is None and header.attributes & TRANSACTIONAL_FLAG:
            # A marker changes nothing yet: its transaction is unstable until it is replicated.
            self.refresh_first_unstable()

    def note_marker(
        self, segment: Segment, header: BatchHeader, offset: int, marker: EndTxnMarker
    ) -> None:
        """As `note_producer` for a marker that this broker built."""
        self._complete(segment, self.producers.note_marker(header, offset, marker))

    def _complete(self, segment: Segment, ended: CompletedTxn | None) -> None:
        """Note the end of a transaction; an aborted one gets an entry in the transaction index."""
        aborted = None if ended is None else self.producers.complete(ended)
        if aborted is not None:
            try:
                segment.txn_index.append(aborted)
            except OSError as error:
                raise self.storage.failed(error) from error

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Start a new segment at the end of the log, or at `base_offset` for a follower.

        Returns the new segment.  Raises LogError.
        """
        start = self.log_end_offset if base_offset is None else base_offset
        self.upkeep[self] = None
        return self.rolling.roll(start, now_ms)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int, min_one_batch: bool
    ) -> Region | None:
        """Return the region of a segment file that a Fetch from `offset` gets; None if there is
        none yet.

        The region begins with the batch that holds `offset` (or with the next batch), so its first
        records may be before `offset`.  It ends before `max_offset`, lies in one segment, and has
        at most `max_bytes`, which may cut a batch, as in Apache Kafka.  A first batch that is
        larger than `max_bytes` is returned whole with `min_one_batch` (KIP-74), else not at all.

        Raises LogError: OFFSET_OUT_OF_RANGE if `offset` is before the log start offset or after the
        log end offset, KAFKA_STORAGE_ERROR if the log cannot be read.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise LogError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{offset} is not within [{self.log_start_offset}, {end}]",
            )
        if offset >= max_offset:
            # A consumer at the end of the log comes back for this offset: its position in the file
            # is known now, and needs no index lookup then.
            if offset == end and offset not in self.reader.positions:
                self.reader.remember_end(end)
            return None
        if self.offline:
            self.check_online()
        try:
            return self.reader.region(offset, end, max_bytes, max_offset, min_one_batch)
        except (OSError, CorruptBatch) as error:
            raise self.storage.read_failed(error) from error

    def refresh_first_unstable(self) -> None:
        """Compute `first_unstable_offset` again: a transaction or the log start offset changed."""
        unstable = self.producers.first_unstable_offset()
        self.first_unstable_offset = (
            None if unstable is None else max(unstable, self.log_start_offset)
        )

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Make transactions stable whose markers are below `high_watermark`, so replicated."""
        if self.producers.unreplicated:
            self.producers.replicated_to(high_watermark)
            self.refresh_first_unstable()

    def increment_log_start_offset(self, offset: int) -> None:
        """Hide records before `offset` from readers.  The next retention removes whole segments."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            Log.moves += 1
            self.epochs.truncate_from_start(offset)
            self.producers.replicated_to(offset)
            self.producers.end_offset = max(self.producers.end_offset, offset)
            self.refresh_first_unstable()

    def restarted(self, log_end_offset: int) -> None:
        """Set the log end offset after a truncation; drop all state about the removed batches."""
        self.log_end_offset = log_end_offset
        self.durability.cut(log_end_offset)
        self._epoch = -1
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, log_end_offset)
        self.reader.forget()
        self.refresh_first_unstable()

    def adopt_topic_id(self, topic_id: bytes) -> None:
        """Set the topic id of a log whose `partition.metadata` was lost or never written."""
        self.storage.write_topic_id(topic_id)
        self.topic_id = topic_id

    # Flushing

    def prepare_flush(self, now_ms: int | None = None) -> Flush | None:
        """Return the flush of everything that was written so far; None if all of it is on disk.

        The caller calls `Flush.run` in any thread, then `flushed` on the loop.  Raises LogError.
        """
        if self.log_end_offset <= self.recovery_point:
            return None
        if now_ms is not None:
            self.durability.last_flush_ms = now_ms
        flush = self.durability.open(self.log_end_offset)
        self.durability.begin(flush, self.log_end_offset)
        return flush

    def flushed(self, flush: Flush) -> None:
        """Advance the recovery point after `flush` has run.  Raises LogError if fsync failed."""
        self.durability.flushed(flush)
        self.upkeep[self] = None

    def flush(self) -> None:
        """Flush everything that was written so far, and wait for the disk.  Raises LogError."""
        self._run_flush(self.prepare_flush())

    def close(self) -> None:
        """Write what is only in memory, flush everything, and close the files: a clean stop."""
        self._run_flush(self.prepare_close())
        self.segments.close()

    def _run_flush(self, flush: Flush | None) -> None:
        if flush is not None:
            flush.run()
            self.flushed(flush)

    def prepare_close(self) -> Flush | None:
        """Write what is only in memory.  Returns the flush of it, or None if all is on disk."""
        durability, end = self.durability, self.log_end_offset
        return None if self.offline else durability.prepare_close(self.producers, end)

    # Failing

    def check_online(self) -> None:
        if self.offline:
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.dir.parent} is offline")

    def take_offline(self) -> None:
        """Refuse all appends and reads with KAFKA_STORAGE_ERROR from now on."""
        self.offline = True
        Log.moves += 1
        self._plain.close()

    def _disk_failed(self, error: OSError) -> None:
        self.take_offline()
        if self.on_storage_failure is not None:
            self.on_storage_failure(error)
