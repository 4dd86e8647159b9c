"""Rolling: when and how a log begins a new segment."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kwire.log.directory import files as names
from kwire.log.segment import Segment

if TYPE_CHECKING:
    from kwire.log.config import LogConfig
    from kwire.log.producers.snapshots import ProducerSnapshots
    from kwire.log.producers.state import ProducerState
    from kwire.log.segments import Segments
    from kwire.log.storage import Storage


class Rolling:
    """Adds segments to a log; call `configure` first."""

    __slots__ = ("_config", "_producers", "_roll_ms", "_segments", "_snapshots", "_storage")

    _config: LogConfig
    _roll_ms: int

    def __init__(
        self,
        storage: Storage,
        segments: Segments,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
    ) -> None:
        """Roll the segments of one log; a roll also writes a snapshot of the producers."""
        self._storage = storage
        self._segments = segments
        self._producers = producers
        self._snapshots = snapshots

    def configure(self, config: LogConfig) -> None:
        """Use changed topic configs from now on."""
        self._config = config
        self._set_roll_time()
        active = self._segments.active
        active.index_interval_bytes = config.index_interval_bytes
        active.index_bytes_max = config.segment_index_bytes

    def _set_roll_time(self) -> None:
        """Set the age for rolling: `segment.ms` less a jitter, so that logs roll apart in time."""
        config = self._config
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        self._roll_ms = config.segment_ms_max - (random.randrange(jitter) if jitter > 0 else 0)

    def is_due(self, segment: Segment, max_timestamp: int, now_ms: int) -> bool:
        """Return whether a segment with records is older than `segment.ms`.

        Its age is the time from its first batch's timestamp to `max_timestamp`.  If records have no
        timestamps, it is the time since the segment was created.
        """
        first = segment.first_timestamp
        if first is None:
            first = segment.first_batch_timestamp()
        age_ms = max_timestamp - first if first >= 0 else now_ms - segment.created_ms
        return age_ms > self._roll_ms

    def roll_if_due(self, log_end_offset: int, now_ms: int) -> bool:
        """Roll an active segment with records that is older than `segment.ms` by the clock.

        Apache Kafka checks only at an append.  The cleaner would then never clean the last segment
        of a compacted topic without appends.
        """
        segment = self._segments.active
        if not segment.size_bytes or not self.is_due(segment, now_ms, now_ms):
            return False
        self.roll(log_end_offset, now_ms)
        return True

    def roll(self, start: int, now_ms: int) -> Segment:
        """Start a new segment at offset `start`.  Raises LogError; no new file stays then.

        Takes a snapshot of the producer state at its base offset, so that recovery can begin there.
        The next flush makes the old segment durable.
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
        """Return the new segment behind `old`.  Raises OSError, after it has removed the new files.

        If they stayed, the log could grow past their base offset, and loading it would find
        overlapping segments.
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
