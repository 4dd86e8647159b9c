"""Which batches are stored as they come: `validate` would find nothing in them, nor change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codecs.batch_layout import (
    CODEC_MASK,
    CODEC_MAX,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.batches import BatchHeader, Compression, is_plausible

if TYPE_CHECKING:
    from kwire.log.config import LogConfig

_PLAIN_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL_FLAG  # any other flag makes a batch not plain


class PlainBatches:
    """By the same rules as `validate`, which a test compares; none is plain until `configure`."""

    __slots__ = ("_after_max_ms", "_before_max_ms", "_bytes_max", "_keeps_codecs", "_own_bytes_max")

    _before_max_ms: int
    _after_max_ms: int
    _keeps_codecs: bool

    def __init__(self) -> None:
        self.close()

    def configure(self, config: LogConfig) -> None:
        """Take over altered topic configs."""
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        target = config.target_compression
        largest = min(config.max_message_bytes, config.segment_bytes)
        stamps = config.log_append_time
        self._bytes_max = -1 if stamps or config.compact or target is not None else largest
        as_made = target in (None, Compression.NONE) and not stamps
        self._own_bytes_max = largest if as_made else -1
        self._keeps_codecs = target is None

    def close(self) -> None:
        """From now on none is plain: each is looked at, and so is whether the log is offline."""
        self._bytes_max = self._own_bytes_max = -1

    def holds(
        self, batch: bytearray | memoryview, size_bytes: int, header: BatchHeader, now_ms: int
    ) -> bool:
        """Whether `validate` would find nothing in a client's batch but that its CRC holds or not.

        What is not plain may be in order all the same.  One expression, for Produce waits for it.
        """
        base, length, _, magic, _, attributes, delta, first_ms, max_ms, pid, _, seq, count = header
        return (
            # Today's format, as a client sends it: one whole batch, not numbered yet.
            magic == MAGIC
            and base == 0
            and length + LOG_OVERHEAD == size_bytes
            # Not too large, on a topic that stores what comes as it is; -1 where it does not.
            and size_bytes <= self._bytes_max
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

    def holds_own(self, size_bytes: int, attributes: int) -> bool:
        """Whether a batch that this broker made a moment ago is stored as it is."""
        return size_bytes <= self._own_bytes_max and (
            not attributes & CODEC_MASK or self._keeps_codecs
        )
