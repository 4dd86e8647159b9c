"""The topic configs, with the types, defaults and rules of Apache Kafka 4.4."""

from __future__ import annotations

from typing import Any

from kwire.settings.definition import (
    MEDIUM,
    READ_ONLY,
    Definition,
    Settings,
    boolean,
    long,
    optional_integer,
    strings,
)
from kwire.settings.definitions.log import LogSettings
from kwire.settings.effects import TIERED_STORAGE
from kwire.settings.validators import (
    at_least,
    throttled_replicas,
)

MS_PER_HOUR = 3_600_000


def _same(broker_name: str) -> Any:  # noqa: ANN401 - declared, as in `definition`, by what it holds
    """A topic config with type, default, range and effect of the broker setting behind it."""
    same = LogSettings.DEFINITIONS[broker_name]
    return Definition(
        same.kind, same.default, MEDIUM, same.validator, READ_ONLY, False, same.effect
    )


def _default(broker_name: str) -> int:
    """The default of a broker setting whose unit or range differs from the topic config's."""
    default = LogSettings.DEFINITIONS[broker_name].default
    assert isinstance(default, int)
    return default


class TopicSettings(Settings):
    """The configs of a topic.  `internal.segment.bytes` is for tests, as in Kafka.

    `definitions.topics` lists the broker settings that are the default of each config.
    """

    cleanup_policy: tuple[str, ...] = _same("log.cleanup.policy")
    compression_gzip_level: int = _same("compression.gzip.level")
    compression_lz4_level: int = _same("compression.lz4.level")
    compression_type: str = _same("compression.type")
    compression_zstd_level: int = _same("compression.zstd.level")
    delete_retention_ms: int = _same("log.cleaner.delete.retention.ms")
    errors_deadletterqueue_group_enable = boolean(
        False,
        MEDIUM,
        doc="Whether share groups may use the topic as their dead-letter topic.",
    )
    file_delete_delay_ms: int = _same("log.segment.delete.delay.ms")
    flush_messages: int = _same("log.flush.interval.messages")
    flush_ms = long(_default("log.flush.scheduler.interval.ms"), MEDIUM, at_least(0))
    follower_replication_throttled_replicas = strings(
        (),
        MEDIUM,
        throttled_replicas,
        doc="Followers whose replication is throttled, as partition:broker pairs, or * for all.",
    )
    index_interval_bytes: int = _same("log.index.interval.bytes")
    internal_segment_bytes = optional_integer(MEDIUM, internal=True)
    leader_replication_throttled_replicas = strings(
        (),
        MEDIUM,
        throttled_replicas,
        doc="Replicas whose replication is throttled on the leader's side, as partition:broker "
        "pairs, or * for all.",
    )
    local_retention_bytes: int = _same("log.local.retention.bytes")
    local_retention_ms: int = _same("log.local.retention.ms")
    max_compaction_lag_ms: int = _same("log.cleaner.max.compaction.lag.ms")
    max_decompressed_message_bytes: int = _same("max.decompressed.message.bytes")
    max_message_bytes: int = _same("message.max.bytes")
    message_timestamp_after_max_ms: int = _same("log.message.timestamp.after.max.ms")
    message_timestamp_before_max_ms: int = _same("log.message.timestamp.before.max.ms")
    message_timestamp_type: str = _same("log.message.timestamp.type")
    min_cleanable_dirty_ratio: float = _same("log.cleaner.min.cleanable.ratio")
    min_compaction_lag_ms: int = _same("log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = _same("min.insync.replicas")
    preallocate: bool = _same("log.preallocate")
    remote_copy_lag_bytes: int = _same("log.remote.copy.lag.bytes")
    remote_copy_lag_ms: int = _same("log.remote.copy.lag.ms")
    remote_log_copy_disable = boolean(
        False,
        MEDIUM,
        effect=TIERED_STORAGE,
        doc="Whether segments are no longer copied to tiered storage; those already copied stay "
        "readable.",
    )
    remote_log_delete_on_disable = boolean(
        False,
        MEDIUM,
        effect=TIERED_STORAGE,
        doc="Whether the data in tiered storage is deleted when tiered storage is turned off.",
    )
    remote_storage_enable = boolean(
        False, MEDIUM, effect=TIERED_STORAGE, doc="Whether the topic uses tiered storage."
    )
    retention_bytes: int = _same("log.retention.bytes")
    retention_ms = long(_default("log.retention.hours") * MS_PER_HOUR, MEDIUM, at_least(-1))
    segment_bytes: int = _same("log.segment.bytes")
    segment_index_bytes: int = _same("log.index.size.max.bytes")
    segment_jitter_ms = long(_default("log.roll.jitter.hours") * MS_PER_HOUR, MEDIUM, at_least(0))
    segment_ms = long(_default("log.roll.hours") * MS_PER_HOUR, MEDIUM, at_least(1))
    unclean_leader_election_enable: bool = _same("unclean.leader.election.enable")
