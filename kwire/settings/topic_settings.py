"""The topic configs, with the types, defaults and rules of Apache Kafka 4.3."""

from __future__ import annotations

from kwire.settings.definition import (
    MEDIUM,
    Settings,
    boolean,
    double,
    integer,
    long,
    optional_integer,
    string,
    strings,
)
from kwire.settings.effects import CLUSTER, TIERED_STORAGE
from kwire.settings.validators import (
    at_least,
    between,
    between_or,
    members,
    one_of,
    throttled_replicas,
)
from kwire.settings.values import LONG_MAX


class TopicSettings(Settings):
    """What can be set on a topic; `internal.segment.bytes` is for tests, as in Kafka."""

    cleanup_policy = strings(("delete",), MEDIUM, members("compact", "delete"))
    compression_gzip_level = integer(-1, MEDIUM, between_or(1, 9, -1))
    compression_lz4_level = integer(9, MEDIUM, between(1, 17))
    compression_type = string(
        "producer", MEDIUM, one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
    )
    compression_zstd_level = integer(3, MEDIUM, between(-131_072, 22))
    delete_retention_ms = long(86_400_000, MEDIUM, at_least(0))
    file_delete_delay_ms = long(60_000, MEDIUM, at_least(0))
    flush_messages = long(LONG_MAX, MEDIUM, at_least(1))
    flush_ms = long(LONG_MAX, MEDIUM, at_least(0))
    follower_replication_throttled_replicas = strings(
        (), MEDIUM, throttled_replicas, effect=CLUSTER
    )
    index_interval_bytes = integer(4096, MEDIUM, at_least(0))
    internal_segment_bytes = optional_integer(MEDIUM, internal=True)
    leader_replication_throttled_replicas = strings((), MEDIUM, throttled_replicas, effect=CLUSTER)
    local_retention_bytes = long(-2, MEDIUM, at_least(-2), effect=TIERED_STORAGE)
    local_retention_ms = long(-2, MEDIUM, at_least(-2), effect=TIERED_STORAGE)
    max_compaction_lag_ms = long(LONG_MAX, MEDIUM, at_least(1))
    max_message_bytes = integer(1_048_588, MEDIUM, at_least(0))
    message_timestamp_after_max_ms = long(3_600_000, MEDIUM, at_least(0))
    message_timestamp_before_max_ms = long(LONG_MAX, MEDIUM, at_least(0))
    message_timestamp_type = string("CreateTime", MEDIUM, one_of("CreateTime", "LogAppendTime"))
    min_cleanable_dirty_ratio = double(0.5, MEDIUM, between(0, 1))
    min_compaction_lag_ms = long(0, MEDIUM, at_least(0))
    min_insync_replicas = integer(1, MEDIUM, at_least(1))
    preallocate = boolean(False, MEDIUM)
    remote_log_copy_disable = boolean(False, MEDIUM, effect=TIERED_STORAGE)
    remote_log_delete_on_disable = boolean(False, MEDIUM, effect=TIERED_STORAGE)
    remote_storage_enable = boolean(False, MEDIUM, effect=TIERED_STORAGE)
    retention_bytes = long(-1, MEDIUM)
    retention_ms = long(604_800_000, MEDIUM, at_least(-1))
    segment_bytes = integer(1_073_741_824, MEDIUM, at_least(1_048_576))
    segment_index_bytes = integer(10_485_760, MEDIUM, at_least(4))
    segment_jitter_ms = long(0, MEDIUM, at_least(0))
    segment_ms = long(604_800_000, MEDIUM, at_least(1))
    unclean_leader_election_enable = boolean(False, MEDIUM, effect=CLUSTER)
