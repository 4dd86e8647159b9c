"""When a log begins a new segment, and how."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kwire.log.directory import files as names
from kwire.log.segment import Segment

if TYPE_CHECKING:
    from kwire.log.config import LogConfig
    from kwire.log.producers.snapshots import Snapshots
    from kwire.log.producers.state import ProducerState
    from kwire.log.segments import Segments
    from kwire.log.storage import Storage


class Rolling:
    """Adds segments to a log; `configure` before anything else."""

    __slots__ = ("_config", "_producers", "_roll_ms", "_segments", "_snapshots", "_storage")

    _config: LogConfig
    _roll_ms: int

    def __init__(
        self, storage: Storage, segments: Segments, producers: ProducerState, snapshots: Snapshots
    ) -> None:
        self._storage = storage
        self._segments = segments
        self._producers = producers
        self._snapshots = snapshots

    def configure(self, config: LogConfig) -> None:
        """Take over altered topic configs."""
        self._config = config
        self._set_roll_time()
        active = self._segments.active
        active.index_interval_bytes = config.index_interval_bytes
        active.index_bytes_max = config.segment_index_bytes

    def _set_roll_time(self) -> None:
        """`segment.ms` less a jitter, so that many partitions' segments do not roll at once."""
        config = self._config
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        self._roll_ms = config.segment_ms_max - (random.randrange(jitter) if jitter > 0 else 0)

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

    def roll_if_due(self, log_end_offset: int, now_ms: int) -> bool:
        """Roll a segment that is older than `segment.ms` by the clock, if it holds anything.

        Kafka looks only when something is appended; a compacted topic that nobody writes to any
        more would keep its last segment from the cleaner for ever.
        """
        segment = self._segments.active
        if not segment.size_bytes or not self.is_due(segment, now_ms, now_ms):
            return False
        self.roll(log_end_offset, now_ms)
        return True

    def roll(self, start: int, now_ms: int) -> Segment:
        """Start a new segment at offset `start`.  LogError; nothing of it stays then.

        The producers' state is kept as a snapshot at its base offset, so that recovery can begin
        there; the next flush makes the old segment durable.
        """
        old = self._segments.active
        try:
            if old.size_bytes == 0 and old.base_offset == start:
                old.rebuild_indexes()
                return old
            segment = self._new_segment(old, start, now_ms)
        except OSError as error:
            raise self._storage.refused(error) from error
        self._segments.add(segment)
        self._set_roll_time()
        return segment

    def _new_segment(self, old: Segment, base_offset: int, now_ms: int) -> Segment:
        """The segment that follows `old`; where it cannot be made, nothing of it stays.

        The log may grow past its base offset then, and would not be one piece when it is loaded.
        """
        old.become_inactive()
        storage = self._storage
        try:
            segment = Segment.create(
                storage.dir, base_offset, storage.files, storage.open_files, self._config, now_ms
            )
            self._producers.end_offset = base_offset
            self._snapshots.take(self._producers)
        except OSError:
            for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
                storage.files.remove(storage.dir / names.segment_file_name(base_offset, suffix))
            raise
        return segment
