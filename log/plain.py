"""Plain batches: those that `validate` would accept without changing a byte.

`Log.append` stores a plain batch without reading its records.
"""

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
    """Decides by the header whether a batch is plain; no batch is plain before `configure`.

    The rules are those of `validate`; a test compares the two.
    """

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_bytes_max",
        "_codec_max",
        "_keeps_codecs",
        "_own_bytes_max",
    )

    _before_max_ms: int
    _after_max_ms: int
    _codec_max: int
    _keeps_codecs: bool

    def __init__(self) -> None:
        self.close()

    def configure(self, config: LogConfig) -> None:
        """Use changed topic configs from the next batch on."""
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        target = config.target_compression
        batch_bytes_max = min(config.max_message_bytes, config.segment_bytes)
        sets_timestamps = config.log_append_time
        changes_batches = sets_timestamps or config.compact or target is not None
        self._bytes_max = -1 if changes_batches else batch_bytes_max
        keeps_own = target in (None, Compression.NONE) and not sets_timestamps
        self._own_bytes_max = batch_bytes_max if keeps_own else -1
        limited = config.record_bytes_max is not None
        self._codec_max = 0 if limited else CODEC_MAX
        self._keeps_codecs = target is None and not limited

    def close(self) -> None:
        """Treat no batch as plain any more: `Log.append` then sees that the log is offline."""
        self._bytes_max = self._own_bytes_max = -1

    def holds(
        self, batch: bytearray | memoryview, size_bytes: int, header: BatchHeader, now_ms: int
    ) -> bool:
        """Return whether a client's batch is plain, apart from its CRC, which the caller checks.

        A batch that is not plain may still be valid.  This is one expression because
        every Produce evaluates it.
        """
        base, length, _, magic, _, attributes, delta, first_ms, max_ms, pid, _, seq, count = header
        return (
            # The current format, as a client sends it: one whole batch, with base offset 0.
            magic == MAGIC
            and base == 0
            and length + LOG_OVERHEAD == size_bytes
            # Not too large; the limit is -1 on a topic that changes batches.
            and size_bytes <= self._bytes_max
            # A known codec, or none if decompressed records have a limit.  No control batch, and
            # no timestamp type that only a broker sets.
            and not attributes & ~_PLAIN_ATTRIBUTES
            and attributes & CODEC_MASK <= self._codec_max
            # As many records as offsets: only compaction removes records from a batch.
            and 0 < count == delta + 1
            # No record is too old or too new, provided that the header's timestamps are true.
            and now_ms - self._before_max_ms <= first_ms <= max_ms <= now_ms + self._after_max_ms
            # They can be true: -1 is "no timestamp" for all records, and one record has one time.
            and (first_ms >= 0 or first_ms == max_ms == -1)
            and (count > 1 or first_ms == max_ms)
            # A batch with a producer id has sequence numbers.
            and (pid < 0 or seq >= 0)
            # So many records fit into so many bytes.
            and is_plausible(batch, header)
        )

    def holds_own(self, size_bytes: int, attributes: int) -> bool:
        """Whether a batch that this broker built is stored without a change."""
        return size_bytes <= self._own_bytes_max and (
            not attributes & CODEC_MASK or self._keeps_codecs
        )
