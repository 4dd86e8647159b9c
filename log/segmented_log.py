"""One partition's log on disk: its segments, rolling them, making them durable, and failing.

Nothing here is asynchronous or thread-safe; one loop owns a log.  What may block for long (fsync,
removing files) is handed out as a `Flush` or a list of paths, which a thread may work on since
they share no state with the log.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.batches import Compression
from kwire.codecs.errors import ErrorCode
from kwire.log.config import LONG_MAX
from kwire.log.directory import files as names
from kwire.log.directory.shortage import passes
from kwire.log.error import LogError
from kwire.log.segment import Segment
from kwire.log.upkeep.flush import Flush

if TYPE_CHECKING:
    from kwire.log.compaction.swap import Swap
    from kwire.log.config import LogConfig
    from kwire.log.directory.files import Files, OpenFile
    from kwire.log.leader_epochs import LeaderEpochCache
    from kwire.log.producers.snapshots import Snapshots
    from kwire.log.producers.state import ProducerState
    from kwire.log.reading.region import OpenFiles
    from kwire.log.segments import Segments

_logger = logging.getLogger(__name__)


class Removal(NamedTuple):
    """Files renamed to `.deleted`, to be removed `file.delete.delay.ms` later, at `due_ms`."""

    due_ms: int
    paths: list[Path]


class SegmentedLog:
    """What reading and appending share.

    Offsets: `log_start_offset` is the first that may be read, `log_end_offset` the next to be
    written; below `recovery_point` everything is on disk for certain.  `first_unstable_offset` is
    the first of an open transaction (or of one whose end is not replicated yet), or None.
    """

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_epoch",
        "_generation",
        "_on_disk",
        "_own_bytes_max",
        "_plain_bytes_max",
        "_positions",
        "_roll_ms",
        "_segment_bytes",
        "config",
        "dir",
        "epochs",
        "files",
        "first_dirty_offset",
        "first_unstable_offset",
        "flush_due",
        "flush_inline",
        "flushes_by_messages",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "offline",
        "on_storage_failure",
        "open_files",
        "partition",
        "producers",
        "recovery_point",
        "removals",
        "segments",
        "snapshots",
        "swapping",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        *,
        files: Files,
        open_files: OpenFiles,
        segments: Segments,
        epochs: LeaderEpochCache,
        producers: ProducerState,
        snapshots: Snapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
        on_disk: bool = True,
    ) -> None:
        self.dir = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.files = files
        self.open_files = open_files
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.snapshots = snapshots
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        self.offline = False
        self.flush_inline = True
        """Whether an append that reaches `flush.messages` fsyncs before it returns.  An owner
        that clears this looks at `flush_due` after each append, and calls `prepare_flush` itself
        before it acknowledges one."""
        self.flush_due = False
        self.on_storage_failure: Callable[[OSError], None] | None = None
        self.removals: list[Removal] = []
        self.first_unstable_offset: int | None = None
        self.first_dirty_offset: int | None = None
        """Up to where it has been compacted (`cleaner-offset-checkpoint`); None: it never was."""
        self.swapping: Swap | None = None
        self._epoch = -1
        self._generation = 0
        self._on_disk = on_disk  # False: new, its folder and what describes it need an fsync
        epochs.durable = on_disk
        self._positions: dict[int, tuple[Segment, int]] = {}
        self.update_config(config)
        self.refresh_first_unstable()

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def size_bytes(self) -> int:
        """Of all .log files."""
        return self.segments.size_bytes

    @property
    def empty(self) -> bool:
        return self.log_start_offset == self.log_end_offset

    def update_config(self, config: LogConfig) -> None:
        """Take over altered topic configs; they hold from the next append on."""
        self.config = config
        self.flushes_by_messages = config.flush_messages < LONG_MAX
        self._segment_bytes = config.segment_bytes
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        in_place = (
            config.target_compression is None and not config.compact and not config.log_append_time
        )
        largest = min(config.max_message_bytes, config.segment_bytes)
        self._plain_bytes_max = largest if in_place and not self.offline else -1
        as_made = config.target_compression in (None, Compression.NONE)
        as_made = as_made and not config.log_append_time
        self._own_bytes_max = largest if as_made and not self.offline else -1
        self._set_roll_time()
        active = self.segments.active
        active.index_interval_bytes = config.index_interval_bytes
        active.index_bytes_max = config.segment_index_bytes

    def _set_roll_time(self) -> None:
        """`segment.ms` less a jitter, so that many partitions' segments do not roll at once."""
        config = self.config
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        self._roll_ms = config.segment_ms_max - (random.randrange(jitter) if jitter > 0 else 0)

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

    @property
    def generation(self) -> int:
        """How often the log was cut."""
        return self._generation

    def forget_positions(self) -> None:
        """Segments were cut, replaced or removed: remembered places are void."""
        self._positions.clear()

    def moved_to(self, directory: Path) -> None:
        """The folder has been renamed: its files are found there from now on."""
        self.dir = directory
        self.snapshots.move(directory)
        self.epochs.move(directory)
        for segment in self.segments:
            segment.move(directory)
        self.removals = [
            Removal(due_ms, [directory / path.name for path in paths])
            for due_ms, paths in self.removals
        ]

    # Rolling

    def is_due(self, segment: Segment, max_timestamp: int, now_ms: int) -> bool:
        """Whether `segment.ms` is over for a segment that holds something.

        Its age counts from its first batch's timestamp to `max_timestamp`, or by the clock where
        records have no timestamps.
        """
        first = segment.first_timestamp
        if first is None:
            first = segment.first_batch_timestamp()
        waited_ms = max_timestamp - first if first >= 0 else now_ms - segment.created_ms
        return waited_ms > self._roll_ms

    def roll_if_due(self, now_ms: int) -> bool:
        """Roll a segment that is older than `segment.ms` by the clock, if it holds anything.

        Kafka looks only when something is appended; a compacted topic that nobody writes to any
        more would keep its last segment from the cleaner for ever.
        """
        segment = self.segments.active
        if not segment.size_bytes or not self.is_due(segment, now_ms, now_ms):
            return False
        self.roll(now_ms)
        return True

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Start a new segment at the end of the log (or at `base_offset`, for a follower).

        The producers' state is kept as a snapshot at its base offset, so that recovery can begin
        there; the next flush makes the old segment durable.
        """
        start = self.log_end_offset if base_offset is None else base_offset
        old = self.segments.active
        try:
            if old.size_bytes == 0 and old.base_offset == start:
                old.rebuild_indexes()
                return old
            segment = self._new_segment(old, start, now_ms)
        except OSError as error:
            raise self.storage_refused(error) from error
        self.segments.add(segment)
        self._set_roll_time()
        return segment

    def _new_segment(self, old: Segment, base_offset: int, now_ms: int) -> Segment:
        """The segment that follows `old`; where it cannot be made, nothing of it stays.

        The log may grow past its base offset then, and would not be one piece when it is loaded.
        """
        old.become_inactive()
        try:
            segment = Segment.create(
                self.dir, base_offset, self.files, self.open_files, self.config, now_ms
            )
            self.producers.end_offset = base_offset
            self.snapshots.take(self.producers)
        except OSError:
            for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
                self.files.remove(self.dir / names.segment_file_name(base_offset, suffix))
            raise
        return segment

    # Flushing

    def prepare_flush(self, now_ms: int | None = None) -> Flush | None:
        """What is to be fsynced for everything written so far; None if nothing is.

        Call here, `Flush.run` in any thread, then `flushed` here.
        """
        if self.log_end_offset <= self.recovery_point:
            return None
        if now_ms is not None:
            self.last_flush_ms = now_ms
        flush = self.open_flush()
        self.begin_flush(flush)
        return flush

    def open_flush(self, at_close: Sequence[OpenFile] | None = None) -> Flush:
        """A flush of what there is and of what is appended until it begins, its files open.

        `at_close` are others of the log's files that are to be durable when it is closed.
        """
        try:
            return Flush.of(self, new=not self._on_disk, at_close=at_close)
        except OSError as error:
            raise self.storage_refused(error) from error

    def begin_flush(self, flush: Flush) -> None:
        """All that it is to hold has been written; `Flush.run` is next."""
        flush.begin(self.log_end_offset, self._generation)
        self.epochs.durable = True  # what is written from now on is in no flush under way

    def flush_now(self, flush: Flush) -> None:
        """Carry out a flush that was opened before."""
        self.begin_flush(flush)
        flush.run()
        self.flushed(flush)

    def flushed(self, flush: Flush) -> None:
        """`flush` has run: recovery may begin where it ended.  LogError if the disk refused."""
        if flush.error is not None:
            raise self.storage_failed(flush.error)
        # Not before: another flush may begin and end while this one waits for its thread.
        self._on_disk = True
        if flush.generation == self._generation:
            self.snapshots.synced(flush.snapshots)
            self.recovery_point = max(self.recovery_point, flush.end_offset)

    def flush(self) -> None:
        """Make everything written so far durable, here and now."""
        if self.log_end_offset > self.recovery_point:
            self.flush_now(self.open_flush())

    # Failing

    def check_online(self) -> None:
        if self.offline:
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.dir.parent} is offline")

    def storage_failed(self, error: OSError) -> LogError:
        """The disk refused: this log takes no more appends, and its directory goes offline."""
        _logger.error("%s-%d in %s: %s", self.topic, self.partition, self.dir.parent, error)
        self.take_offline()
        if self.on_storage_failure is not None:
            self.on_storage_failure(error)
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def storage_refused(self, error: OSError) -> LogError:
        """As `storage_failed`, for a step that changed nothing: a shortage is no failure."""
        if not passes(error):
            return self.storage_failed(error)
        _logger.warning("%s-%d in %s: %s", self.topic, self.partition, self.dir.parent, error)
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def take_offline(self) -> None:
        """Answer KAFKA_STORAGE_ERROR to everything from now on."""
        self.offline = True
        # Closes the quick ways of `append`; the thorough one looks at `offline`.
        self._plain_bytes_max = self._own_bytes_max = -1

    # Removing

    def remove_later(self, paths: list[Path], now_ms: int) -> None:
        """Rename files to `.deleted` now; `LogManager.maintain` has them removed later."""
        renamed = []
        for path in paths:
            target = path.with_name(path.name + ".deleted")
            try:
                self.files.rename(path, target)
            except FileNotFoundError:
                continue
            renamed.append(target)
        self.removals.append(Removal(now_ms + self.config.file_delete_delay_ms, renamed))
