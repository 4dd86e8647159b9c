"""One partition's log: appending to it, reading it, and where it begins and ends.

Nothing here is asynchronous or thread-safe; one loop owns a log.  What may block for long (fsync,
removing files) is handed out as a `Flush` or a list of paths, which a thread may work on since
they share no state with the log.

A log is made of parts that each own what they keep, and know nothing of one another's: `Storage`,
`Segments`, `Rolling`, `Durability`, `Reader`, epochs and producers.  What works on logs as a whole
(`follower`, `recovery/`, `upkeep/`, `compaction/`) is given one, and none of that is called here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.codecs import crc32c
from kwire.codecs.batch_layout import (
    CRC_END,
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
    from kwire.log.producers.snapshots import Snapshots
    from kwire.log.producers.state import ProducerState
    from kwire.log.producers.verification import Verification
    from kwire.log.reading.region import Region
    from kwire.log.segment import Segment
    from kwire.log.segments import Segments
    from kwire.log.storage import Storage
    from kwire.log.upkeep.flush import Flush

_unpack_header, _pack_header_into = HEADER.unpack_from, HEADER.pack_into
_patch = START.pack_into
_result = AppendResult._make  # a third faster than by its name


@dataclass(slots=True, eq=False, repr=False)
class Log:
    """The log of one partition; made by `loader.load`, or by a `LogManager`.

    Offsets: `log_start_offset` is the first that may be read, `log_end_offset` the next to be
    written; below `recovery_point` everything is on disk for certain.  `first_unstable_offset` is
    the first of an open transaction (or of one whose end is not replicated yet), or None.
    """

    storage: Storage
    topic_id: bytes
    config: LogConfig
    segments: Segments
    epochs: LeaderEpochCache
    producers: ProducerState
    snapshots: Snapshots
    durability: Durability
    log_start_offset: int
    log_end_offset: int
    reader: Reader = field(init=False)
    rolling: Rolling = field(init=False)
    offline: bool = field(default=False, init=False)
    on_storage_failure: Callable[[OSError], None] | None = field(default=None, init=False)
    flush_inline: bool = field(default=True, init=False)
    """Whether an append that reaches `flush.messages` fsyncs before it returns.  An owner that
    clears this looks at `flush_due` after each append, and calls `prepare_flush` itself before it
    acknowledges one."""
    flush_due: bool = field(default=False, init=False)
    flushes_by_messages: bool = field(init=False)
    first_unstable_offset: int | None = field(default=None, init=False)
    first_dirty_offset: int | None = field(default=None, init=False)
    """Up to where it has been compacted (`cleaner-offset-checkpoint`); None: it never was."""
    upkeep: dict[Log, None] = field(default_factory=dict, init=False)  # see `LogDirs.changed`
    cancel_swap: Callable[[], None] | None = field(default=None, init=False)
    """Where cleaned segments are on their way in: called before any are removed."""
    _plain: PlainBatches = field(init=False)
    _segment_bytes: int = field(init=False)
    _epoch: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
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
        """Take over altered topic configs; they hold from the next append on."""
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

        Its base offset and leader epoch (and its largest timestamp and CRC, where the topic's
        configs ask for that) are written into `batches`, which must be writable.
        `transaction_version` matters for a transaction marker only.  LogError if it is refused:
        neither the log nor `batches` is changed then.

        Nearly every batch is plain and goes a quick way; `validate` decides on all others.
        """
        size = len(batches)
        if size < HEADER_SIZE:
            self._validate(batches, origin, now_ms)
        given, header = batches, header_of(_unpack_header(batches, 0))
        asked = header
        if origin is Origin.CLIENT and self._plain.holds(batches, size, header, now_ms):
            if crc32c.crc32c(memoryview(batches)[CRC_END:]) != header.crc:
                raise LogError(ErrorCode.CORRUPT_MESSAGE, "the CRC does not hold")
            stamp_ms = -1
        elif origin is Origin.COORDINATOR and self._plain.holds_own(size, header.attributes):
            stamp_ms = -1
        else:
            batches, header = self._validate(batches, origin, now_ms)
            stamp_ms = now_ms if self.config.log_append_time else -1
        entry = marker = None
        try:
            if header.producer_id >= 0:
                entry = self.producers.entry_in_sequence(header, origin, verification)
                if entry is None:
                    marker = marker_of(batches, header)
                    repeated = self._check_producer(
                        header, origin, marker, verification, transaction_version
                    )
                    if repeated is not None:
                        return repeated
            return self._append_valid(
                batches, header, leader_epoch, now_ms, stamp_ms, entry, marker
            )
        except LogError as error:
            _pack_header_into(given, 0, *asked)  # the same bytes may be offered again
            self.producers.note_refused(header, origin, error.error, now_ms)
            raise

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
        """Append the marker of a transaction, made by this broker: `batch`, which has `header`.

        Only its producer has to be looked at; LogError if it may not end the transaction.
        """
        if self.config.log_append_time:  # the batch must say so
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
        segment, last_offset, flush = self._write(batch, header, leader_epoch, now_ms)
        if header.producer_id >= 0:
            self.note_producer(segment, header, offset, marker)
        producers.end_offset = last_offset + 1
        if flush is not None:
            self.durability.flush(flush, self.log_end_offset)

    def _append_valid(
        self,
        batches: bytearray | memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        stamp_ms: int,
        entry: ProducerEntry | None,
        marker: EndTxnMarker | None,
    ) -> AppendResult:
        """Write the batch and note its producer: the only step that changes anything.

        `entry` is given for the plainly next batch of a producer, `marker` for a control batch.
        """
        first_offset = self.log_end_offset
        segment, last_offset, flush = self._write(batches, header, leader_epoch, now_ms)
        if entry is not None:
            if entry.txn_first_offset < 0 and header.attributes & TRANSACTIONAL_FLAG:
                self.producers.begin_transaction(entry, first_offset)
                if self.first_unstable_offset is None:
                    self.first_unstable_offset = first_offset
            delta = header.last_offset_delta
            sequence = (header.base_sequence + delta) % SEQUENCE_RANGE
            written = WrittenBatch(sequence, last_offset, delta, header.max_timestamp)
            entry.add(header.producer_epoch, written)
        elif header.producer_id >= 0:
            self.note_producer(segment, header, first_offset, marker)
        self.producers.end_offset = last_offset + 1
        if flush is not None:
            self.durability.flush(flush, self.log_end_offset)
        count, size = header.records_count, header.length + LOG_OVERHEAD
        return _result(
            (first_offset, last_offset, stamp_ms, self.log_start_offset, False, count, size)
        )

    def _validate(self, batches: bytearray | memoryview, origin: Origin, now_ms: int) -> Validated:
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
        """LogError if the producer may not write this; if it did before, what was answered then."""
        try:
            repeated = self.producers.check(
                header, origin, marker, verification, transaction_version
            )
        except LogError as error:
            error.log_start_offset = self.log_start_offset
            raise
        if repeated is None:
            return None
        return AppendResult(
            repeated.first_offset,
            repeated.last_offset,
            repeated.timestamp,
            self.log_start_offset,
            True,
            header.records_count,
            header.length + LOG_OVERHEAD,
        )

    def _write(
        self, batches: bytearray | memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> tuple[Segment, int, Flush | None]:
        """Give the batch its offsets and write it.

        Gives the segment, the batch's last offset, and the flush that is due with it: that is made
        ready before anything is written, so that a want of descriptors refuses the batch whole.
        """
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        length, max_timestamp = header.length, header.max_timestamp
        size = length + LOG_OVERHEAD
        if leader_epoch != self._epoch:
            self.assign_epoch(leader_epoch, first_offset)
            self._epoch = leader_epoch
        segment = self.segments.active
        position = segment.size_bytes
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
                flush = self.durability.open(first_offset)
            else:
                self.flush_due = True
        _patch(batches, 0, first_offset, length, leader_epoch)
        try:
            segment.write(position, batches, size)
        except OSError as error:
            raise self.storage.refused(error) from error
        segment.note_batch(position, size, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        self.upkeep[self] = None
        return segment, last_offset, flush

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """A leader epoch begins: of the batch about to be written, or of this broker as leader."""
        try:
            self.epochs.assign(leader_epoch, start_offset)
        except OSError as error:
            raise self.storage.refused(error) from error

    def note_producer(
        self, segment: Segment, header: BatchHeader, offset: int, marker: EndTxnMarker | None
    ) -> None:
        """A batch of a producer was written: note it, and the end of its transaction."""
        completed = self.producers.note(header, offset, marker)
        aborted = None if completed is None else self.producers.complete(completed)
        if aborted is not None:
            try:
                segment.txn_index.append(aborted)
            except OSError as error:
                raise self.storage.failed(error) from error
        if marker is None and header.attributes & TRANSACTIONAL_FLAG:
            self.refresh_first_unstable()  # a marker's transaction counts until it is replicated

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Start a new segment at the end of the log (or at `base_offset`, for a follower)."""
        start = self.log_end_offset if base_offset is None else base_offset
        self.upkeep[self] = None
        return self.rolling.roll(start, now_ms)

    # Reading

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
        """Transactions began or ended, or the log start offset moved."""
        unstable = self.producers.first_unstable_offset()
        self.first_unstable_offset = (
            None if unstable is None else max(unstable, self.log_start_offset)
        )

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Markers below it are replicated, so their transactions are stable now."""
        if self.producers.unreplicated:
            self.producers.replicated_to(high_watermark)
            self.refresh_first_unstable()

    def increment_log_start_offset(self, offset: int) -> None:
        """Records before `offset` are gone for readers; segments follow with the next retention."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
            self.producers.replicated_to(offset)
            self.producers.end_offset = max(self.producers.end_offset, offset)
            self.refresh_first_unstable()

    def restarted(self, log_end_offset: int) -> None:
        """The log was cut: what was remembered of its end is void."""
        self.log_end_offset = log_end_offset
        self.durability.cut(log_end_offset)
        self._epoch = -1
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, log_end_offset)
        self.reader.forget()
        self.refresh_first_unstable()

    def adopt_topic_id(self, topic_id: bytes) -> None:
        """The topic's id, for a log whose `partition.metadata` was lost or never written."""
        self.storage.write_topic_id(topic_id)
        self.topic_id = topic_id

    # Flushing

    def prepare_flush(self, now_ms: int | None = None) -> Flush | None:
        """What is to be fsynced for everything written so far; None if nothing is.

        Call here, `Flush.run` in any thread, then `flushed` here.
        """
        if self.log_end_offset <= self.recovery_point:
            return None
        if now_ms is not None:
            self.durability.last_flush_ms = now_ms
        flush = self.durability.open(self.log_end_offset)
        self.durability.begin(flush, self.log_end_offset)
        return flush

    def flushed(self, flush: Flush) -> None:
        """`flush` has run: recovery may begin where it ended.  LogError if the disk refused."""
        self.durability.flushed(flush)
        self.upkeep[self] = None

    def flush(self) -> None:
        """Make everything written so far durable, here and now."""
        self._carry_out(self.prepare_flush())

    def close(self) -> None:
        """Write what is only in memory and make all of it durable, for a clean stop."""
        self._carry_out(self.prepare_close())
        self.segments.close()

    def _carry_out(self, flush: Flush | None) -> None:
        if flush is not None:
            flush.run()
            self.flushed(flush)

    def prepare_close(self) -> Flush | None:
        """Write what is only in memory; gives what makes it durable, None if all is."""
        durability, end = self.durability, self.log_end_offset
        return None if self.offline else durability.prepare_close(self.producers, end)

    # Failing

    def check_online(self) -> None:
        if self.offline:
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.dir.parent} is offline")

    def take_offline(self) -> None:
        """Answer KAFKA_STORAGE_ERROR to everything from now on."""
        self.offline = True
        self._plain.close()

    def _disk_failed(self, error: OSError) -> None:
        self.take_offline()
        if self.on_storage_failure is not None:
            self.on_storage_failure(error)
