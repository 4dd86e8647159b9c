"""One partition's log: appending to it, and the operations that move its ends."""

from __future__ import annotations

import logging

from kwire.codecs import crc32c
from kwire.codecs.batch_layout import (
    CODEC_MASK,
    CODEC_MAX,
    CRC_END,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    SEQUENCE_RANGE,
    START,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.batches import BatchHeader, header_of, is_plausible
from kwire.codecs.control import EndTxnMarker
from kwire.codecs.errors import ErrorCode
from kwire.log import follower
from kwire.log.append_result import AppendResult
from kwire.log.directory import partition_metadata
from kwire.log.error import LogError
from kwire.log.origin import Origin
from kwire.log.producers.entry import ProducerEntry, WrittenBatch
from kwire.log.producers.replay import marker_of
from kwire.log.producers.verification import Verification
from kwire.log.reading.readable_log import ReadableLog
from kwire.log.recovery import truncation
from kwire.log.segment import RELATIVE_OFFSET_MAX, Segment
from kwire.log.upkeep import retention
from kwire.log.upkeep.flush import Flush
from kwire.log.validator import Validated, validate

_logger = logging.getLogger(__name__)

_unpack_header = HEADER.unpack_from
_pack_header_into = HEADER.pack_into
_patch = START.pack_into
_PLAIN_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL_FLAG  # any other flag makes a batch not plain


class Log(ReadableLog):
    """The log of one partition; made by `loader.load`, or by a `LogManager`."""

    __slots__ = ()

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

        What nearly every batch is goes a quick way (`_is_plain`); `validate` decides on all others.
        """
        size = len(batches)
        if size < HEADER_SIZE:
            self._validate(batches, origin, now_ms)
        given, header = batches, header_of(_unpack_header(batches, 0))
        asked = header
        if origin is Origin.CLIENT and self._is_plain(batches, size, header, now_ms):
            if crc32c.crc32c(memoryview(batches)[CRC_END:]) != header.crc:
                raise LogError(ErrorCode.CORRUPT_MESSAGE, "the CRC does not hold")
            stamp_ms = -1
        elif origin is Origin.COORDINATOR and self._stays_as_made(size, header.attributes):
            stamp_ms = -1
        else:
            batches, header = self._validate(batches, origin, now_ms)
            stamp_ms = now_ms if self.config.log_append_time else -1
        entry = marker = None
        try:
            if header.producer_id >= 0:
                entry = self._entry_in_sequence(header, origin, verification)
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
        except LogError:
            _pack_header_into(given, 0, *asked)  # the same bytes may be offered again
            raise

    def _is_plain(
        self, batch: bytearray | memoryview, size_bytes: int, header: BatchHeader, now_ms: int
    ) -> bool:
        """Whether `validate` would find nothing in this batch but that its CRC holds or not.

        By the same rules, which a test compares; what is not plain may be in order all the same.
        One expression, for Produce waits for it.
        """
        base, length, _, magic, _, attributes, delta, first_ms, max_ms, pid, _, seq, count = header
        return (
            # Today's format, as a client sends it: one whole batch, not numbered yet.
            magic == MAGIC
            and base == 0
            and length + LOG_OVERHEAD == size_bytes
            # Not too large, on a topic that stores what comes as it is; -1 where it does not.
            and size_bytes <= self._plain_bytes_max
            # Of a codec that there is, no marker, and with no timestamp that a broker sets.
            and not attributes & ~_PLAIN_ATTRIBUTES
            and attributes & CODEC_MASK <= CODEC_MAX
            # As many records as offsets: none is missing, as after compaction.
            and 0 < count == delta + 1
            # No record is too old or too new, if the header's span of timestamps is true,
            and now_ms - self._before_max_ms <= first_ms <= max_ms <= now_ms + self._after_max_ms
            # which it can be: -1 is no timestamp, of all records, and one record spans nothing.
            and (first_ms >= 0 or first_ms == max_ms == -1)
            and (count > 1 or first_ms == max_ms)
            # Who has a producer id has sequence numbers.
            and (pid < 0 or seq >= 0)
            # And so many records can be in so many bytes.
            and is_plausible(batch, header)
        )

    def _stays_as_made(self, size_bytes: int, attributes: int) -> bool:
        """Whether a batch that this broker made a moment ago is stored as it is."""
        return size_bytes <= self._own_bytes_max and (
            not attributes & CODEC_MASK or self.config.target_compression is None
        )

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
            self.flush_now(flush)

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
                self._begin_transaction(entry, first_offset)
            delta = header.last_offset_delta
            sequence = (header.base_sequence + delta) % SEQUENCE_RANGE
            written = WrittenBatch(sequence, last_offset, delta, header.max_timestamp)
            entry.add(header.producer_epoch, written)
        elif header.producer_id >= 0:
            self.note_producer(segment, header, first_offset, marker)
        self.producers.end_offset = last_offset + 1
        if flush is not None:
            self.flush_now(flush)
        return AppendResult(
            first_offset,
            last_offset,
            stamp_ms,
            self.log_start_offset,
            False,
            header.records_count,
            header.length + LOG_OVERHEAD,
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

    def _entry_in_sequence(
        self, header: BatchHeader, origin: Origin, verification: Verification | None
    ) -> ProducerEntry | None:
        """The producer's entry, if this is plainly its next batch.

        Outside of transactions, of the transaction that is open, or the first of one that its
        coordinator has just vouched for.
        """
        producers = self.producers
        producer_id, sequence = header.producer_id, header.base_sequence
        entry = producers.entries.get(producer_id)
        if (
            entry is None
            or entry.next_sequence != sequence
            or entry.epoch != header.producer_epoch
            or origin is not Origin.CLIENT
        ):
            return None
        flags, is_open = header.attributes & ~CODEC_MASK, entry.txn_first_offset >= 0
        known = producers.verifications.get(producer_id)
        if known is None:
            return entry if flags == (TRANSACTIONAL_FLAG if is_open else 0) else None
        begins = flags == TRANSACTIONAL_FLAG and not is_open and known is verification
        return entry if begins and sequence <= known.lowest_sequence else None

    def _begin_transaction(self, entry: ProducerEntry, offset: int) -> None:
        """The batch at `offset` is the first of a transaction that was verified."""
        self.producers.begin_transaction(entry, offset)
        if self.first_unstable_offset is None:
            self.first_unstable_offset = offset

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
        self,
        batches: bytearray | memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
    ) -> tuple[Segment, int, Flush | None]:
        """Give the batch its offsets and write it.

        Gives the segment, the batch's last offset, and the flush that is due with it: that is made
        ready before anything is written, so that a want of descriptors refuses the batch whole.
        """
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        size = header.length + LOG_OVERHEAD
        if leader_epoch != self._epoch:
            self._assign_epoch(leader_epoch)
        segment = self.segments.active
        position = segment.size_bytes
        if (
            position + size > self._segment_bytes
            or segment.indexes_full
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or (position and self.is_due(segment, max_timestamp, now_ms))
        ):
            segment = self.roll(now_ms)
            position = 0
        flush = None
        if (
            self.flushes_by_messages
            and last_offset + 1 - self.recovery_point >= self.config.flush_messages
        ):
            flush = self._flush_due()
        _patch(batches, 0, first_offset, header.length, leader_epoch)
        self.write_bytes(segment, position, batches, size)
        segment.note_batch(position, size, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        return segment, last_offset, flush

    def write_bytes(
        self, segment: Segment, position: int, data: bytearray | memoryview, size: int
    ) -> None:
        """Write to a segment; what part of it got there is taken back when the disk refuses."""
        try:
            file = segment.file or segment.open()
            written = self.files.pwrite(file.fd, data, position)
            if written != size:
                self.files.write_all(file, memoryview(data)[written:], position + written)
        except OSError as error:
            try:
                if segment.file is not None:
                    self.files.ftruncate(segment.file.fd, position)
            except OSError as again:
                _logger.error("cannot cut %s back to %d: %s", segment.path, position, again)
                raise self.storage_failed(error) from error
            raise self.storage_refused(error) from error

    def _assign_epoch(self, leader_epoch: int) -> None:
        self.assign_epoch(leader_epoch, self.log_end_offset)
        self._epoch = leader_epoch

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """A leader epoch begins: of the batch about to be written, or of this broker as leader."""
        try:
            self.epochs.assign(leader_epoch, start_offset)
        except OSError as error:
            raise self.storage_refused(error) from error

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
                raise self.storage_failed(error) from error
        if marker is None and header.attributes & TRANSACTIONAL_FLAG:
            self.refresh_first_unstable()  # a marker's transaction counts until it is replicated

    def _flush_due(self) -> Flush | None:
        if self.flush_inline:
            return self.open_flush()
        self.flush_due = True
        return None

    def append_as_follower(
        self, batches: bytearray | memoryview, *, leader_epoch: int, now_ms: int
    ) -> AppendResult | None:
        """Append what the leader has sent, offsets and all.  See `follower.append`."""
        return follower.append(self, batches, leader_epoch, now_ms)

    # Transactions

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> Verification | None:
        """The proof to pass to `append` once the transaction coordinator has said yes (KIP-890).

        None if none is needed, as the producer's transaction is already known here.
        """
        producers = self.producers
        if producers.has_ongoing_txn(producer_id, epoch):
            return None
        known = producers.verifications.get(producer_id)
        if known is None:
            known = producers.verifications[producer_id] = Verification(
                now_ms, sequence, epoch, supports_epoch_bump=supports_epoch_bump
            )
        else:
            known.join(sequence, epoch)
        return known

    def active_producers(self) -> list[ProducerEntry]:
        """For DescribeProducers."""
        return list(self.producers.entries.values())

    # Moving the ends

    def delete_records(self, offset: int, high_watermark: int) -> int:
        """Make `offset` the first that may be read (DeleteRecords); gives the log start offset.

        OFFSET_OUT_OF_RANGE if it is behind the high watermark, POLICY_VIOLATION if the topic is
        compacted and nothing else, as its consumers count on the last record of each key.
        """
        if self.config.compact and not self.config.delete:
            raise LogError(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy is compact")
        if not 0 <= offset <= high_watermark:
            raise LogError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{offset} is behind the high watermark, {high_watermark}",
            )
        self.increment_log_start_offset(offset)
        return self.log_start_offset

    def increment_log_start_offset(self, offset: int) -> None:
        """Records before `offset` are gone for readers; segments follow with the next retention."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
            self.producers.replicated_to(offset)
            self.producers.end_offset = max(self.producers.end_offset, offset)
            self.refresh_first_unstable()

    def delete_expired_segments(self, now_ms: int, high_watermark: int) -> int:
        """Apply retention; gives the number of segments that went.  See `retention`."""
        return retention.delete_expired_segments(self, now_ms, high_watermark)

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drop everything from `offset` on; False if there was nothing."""
        return truncation.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(
        self, offset: int, now_ms: int, log_start_offset: int | None = None
    ) -> None:
        """Drop everything and go on at `offset`."""
        truncation.truncate_fully(self, offset, now_ms, log_start_offset)

    def restarted(self, log_end_offset: int) -> None:
        """The log was cut: what was remembered of its end is void."""
        self.log_end_offset = log_end_offset
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self._epoch = -1
        self._generation += 1
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, log_end_offset)
        self.forget_positions()
        self.refresh_first_unstable()

    def adopt_topic_id(self, topic_id: bytes) -> None:
        """The topic's id, for a log whose `partition.metadata` was lost or never written."""
        try:
            partition_metadata.write(self.files, self.dir, topic_id)
        except OSError as error:
            raise self.storage_refused(error) from error
        self.topic_id = topic_id

    def close(self) -> None:
        """Write what is only in memory and make all of it durable, for a clean stop."""
        from kwire.log.upkeep import closing

        closing.close(self)
