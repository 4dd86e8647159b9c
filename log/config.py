"""The topic configs that the log engine reads, with one field for each config.

`kwire/settings/` declares the configs and their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

from kwire.codecs.batches import Compression

LONG_MAX = 2**63 - 1
_UNLIMITED_RECORD_BYTES = 2**31 - 9
"""The default of max.decompressed.message.bytes: no record of a Java broker can be larger."""

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configs of one topic; a field has the config's name with `_` instead of `.`.

    Values are validated already.  Sizes are in bytes, `*_ms` in milliseconds; -1 means "no limit"
    where Kafka says so.
    """

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_decompressed_message_bytes: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_copy_lag_bytes: int
    remote_copy_lag_ms: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def record_bytes_max(self) -> int | None:
        """The largest size of a record in a compressed batch, in bytes; None without a limit."""
        limit = self.max_decompressed_message_bytes
        return None if limit >= _UNLIMITED_RECORD_BYTES else limit

    @property
    def segment_ms_max(self) -> int:
        """The largest age of the active segment, in ms: `segment.ms`, or less.

        The cleaner never cleans the active segment, so `max.compaction.lag.ms` limits its age too.
        """
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def target_compression(self) -> Compression | None:
        """The codec that batches are stored with; None keeps the producer's codec."""
        return _CODECS.get(self.compression_type)

    def compression_level(self, codec: Compression) -> int | None:
        """Return the level for recompression; None if the codec has no levels (snappy, none)."""
        if codec is Compression.GZIP:
            return self.compression_gzip_level
        if codec is Compression.LZ4:
            return self.compression_lz4_level
        if codec is Compression.ZSTD:
            return self.compression_zstd_level
        return None
