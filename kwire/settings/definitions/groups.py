"""The settings of groups: broker settings, and the configs of a group itself.

A group config such as `share.session.timeout.ms` takes its default from the broker setting
`group.share.session.timeout.ms`, and its bounds from `group.share.min.session.timeout.ms` and
`group.share.max.session.timeout.ms`.  The code finds these settings by their names.
"""

from __future__ import annotations

from kwire.settings.definition import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    MEDIUM,
    Settings,
    boolean,
    integer,
    long,
    short,
    string,
    strings,
)
from kwire.settings.effects import (
    JAVA,
    NO_BUFFERS,
    NO_LINGER,
    NO_PURGING,
    ONE_ASSIGNOR,
    ONE_LOOP,
    SHARE_STATE_PRUNING,
)
from kwire.settings.validators import (
    at_least,
    between,
    members,
    offset_reset,
    one_of,
    one_of_any_case,
)
from kwire.settings.values import INT_MAX


class ConsumerGroupSettings(Settings):
    """Consumer groups: the broker assigns the partitions (KIP-848)."""

    group_consumer_assignment_interval_ms = integer(1000, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    group_consumer_assignors = strings(("uniform", "range"), MEDIUM, members(empty=False))
    group_consumer_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    group_consumer_max_assignment_interval_ms = integer(15_000, MEDIUM, at_least(0))
    group_consumer_max_heartbeat_interval_ms = integer(15_000, MEDIUM, at_least(1))
    group_consumer_max_session_timeout_ms = integer(60_000, MEDIUM, at_least(1))
    group_consumer_max_size = integer(INT_MAX, MEDIUM, at_least(1))
    group_consumer_migration_policy = string(
        "bidirectional",
        MEDIUM,
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    )
    group_consumer_min_assignment_interval_ms = integer(0, MEDIUM, at_least(0))
    group_consumer_min_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    group_consumer_min_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))
    group_consumer_regex_refresh_interval_ms = integer(
        600_000, MEDIUM, at_least(10_000), internal=True
    )
    group_consumer_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))


class ConsumerGroupConfigs(Settings):
    """The configs of a consumer group."""

    consumer_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    consumer_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    consumer_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))


class ShareMembershipSettings(Settings):
    """The members of share groups (KIP-932)."""

    group_share_assignment_interval_ms = integer(1000, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    group_share_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    group_share_max_assignment_interval_ms = integer(15_000, MEDIUM, at_least(0))
    group_share_max_heartbeat_interval_ms = integer(15_000, MEDIUM, at_least(1))
    group_share_max_session_timeout_ms = integer(60_000, MEDIUM, at_least(1))
    group_share_max_size = integer(200, MEDIUM, between(1, 1000))
    group_share_min_assignment_interval_ms = integer(0, MEDIUM, at_least(0))
    group_share_min_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    group_share_min_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))
    group_share_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))


class ShareGroupSettings(Settings):
    """The records of share groups."""

    group_share_delivery_count_limit = integer(5, MEDIUM, between(2, 10))
    group_share_max_delivery_count_limit = integer(10, MEDIUM, between(5, 25))
    group_share_max_partition_max_record_locks = integer(4000, MEDIUM, between(2000, 10_000))
    group_share_max_record_lock_duration_ms = integer(60_000, MEDIUM, between(30_000, 3_600_000))
    group_share_max_share_sessions = integer(2000, MEDIUM, at_least(1))
    group_share_min_delivery_count_limit = integer(2, MEDIUM, between(2, 5))
    group_share_min_partition_max_record_locks = integer(100, MEDIUM, between(100, 2000))
    group_share_min_record_lock_duration_ms = integer(15_000, MEDIUM, between(1000, 30_000))
    group_share_partition_max_record_locks = integer(2000, MEDIUM, between(100, 10_000))
    group_share_record_lock_duration_ms = integer(30_000, MEDIUM, between(1000, 3_600_000))


class ShareCoordinatorSettings(Settings):
    """The share coordinator, which stores the state of share partitions."""

    group_share_assignors = strings(("simple",), MEDIUM, members(empty=False), effect=ONE_ASSIGNOR)
    group_share_initialize_retry_interval_ms = integer(30_000, LOW, at_least(1), internal=True)
    group_share_persister_class_name = string(
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        MEDIUM,
        internal=True,
        effect=JAVA,
    )
    share_coordinator_append_linger_ms = integer(-1, MEDIUM, at_least(-1), effect=NO_LINGER)
    share_coordinator_cached_buffer_max_bytes = integer(
        1_048_588, MEDIUM, at_least(524_288), mode=CLUSTER_WIDE, effect=NO_BUFFERS
    )
    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        300_000, LOW, at_least(1), internal=True, effect=SHARE_STATE_PRUNING
    )
    share_coordinator_load_buffer_size = integer(5_242_880, HIGH, at_least(1), effect=NO_BUFFERS)
    share_coordinator_snapshot_update_records_per_snapshot = integer(500, MEDIUM, between(0, 500))
    share_coordinator_state_topic_compression_codec = integer(0, HIGH)
    share_coordinator_state_topic_prune_interval_ms = integer(
        300_000, LOW, at_least(1), internal=True, effect=SHARE_STATE_PRUNING
    )
    share_coordinator_threads = integer(1, MEDIUM, at_least(1), effect=ONE_LOOP)
    share_coordinator_write_timeout_ms = integer(5000, HIGH, at_least(1))
    share_fetch_purgatory_purge_interval_requests = integer(1000, MEDIUM, effect=NO_PURGING)


class ShareMembershipConfigs(Settings):
    """The configs of a share group about its members."""

    share_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    share_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    share_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))


class ShareGroupConfigs(Settings):
    """The configs of a share group about its records."""

    share_auto_offset_reset = string("latest", MEDIUM, offset_reset)
    share_delivery_count_limit = integer(5, MEDIUM, at_least(2))
    share_isolation_level = string(
        "read_uncommitted", MEDIUM, one_of("read_committed", "read_uncommitted")
    )
    share_partition_max_record_locks = integer(2000, MEDIUM, at_least(100))
    share_record_lock_duration_ms = integer(30_000, MEDIUM, at_least(1000))
    share_renew_acknowledge_enable = boolean(True, MEDIUM)


class StreamsGroupSettings(Settings):
    """Groups of Kafka Streams (KIP-1071)."""

    group_streams_assignment_interval_ms = integer(1000, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    group_streams_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    group_streams_initial_rebalance_delay_ms = integer(3000, MEDIUM, at_least(0))
    group_streams_max_assignment_interval_ms = integer(15_000, MEDIUM, at_least(0))
    group_streams_max_heartbeat_interval_ms = integer(15_000, MEDIUM, at_least(1))
    group_streams_max_session_timeout_ms = integer(60_000, MEDIUM, at_least(1))
    group_streams_max_size = integer(INT_MAX, MEDIUM, at_least(1))
    group_streams_max_standby_replicas = integer(2, MEDIUM, at_least(0))
    group_streams_min_assignment_interval_ms = integer(0, MEDIUM, at_least(0))
    group_streams_min_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    group_streams_min_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))
    group_streams_num_standby_replicas = integer(0, MEDIUM, at_least(0))
    group_streams_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))


class StreamsGroupConfigs(Settings):
    """The configs of a streams group."""

    streams_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    streams_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    streams_initial_rebalance_delay_ms = integer(3000, MEDIUM, at_least(0))
    streams_num_standby_replicas = integer(0, MEDIUM, at_least(0))
    streams_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))


class GroupSettings(
    ConsumerGroupSettings,
    ShareMembershipSettings,
    ShareGroupSettings,
    ShareCoordinatorSettings,
    StreamsGroupSettings,
):
    """All kinds of groups, their offsets, and the topics that hold their state."""

    group_coordinator_append_linger_ms = integer(-1, MEDIUM, at_least(-1), effect=NO_LINGER)
    group_coordinator_background_threads = integer(2, HIGH, at_least(1), effect=ONE_LOOP)
    group_coordinator_cached_buffer_max_bytes = integer(
        1_048_588,
        MEDIUM,
        at_least(524_288),
        mode=CLUSTER_WIDE,
        effect=NO_BUFFERS,
    )
    group_coordinator_rebalance_protocols = strings(
        ("classic", "consumer", "streams"),
        MEDIUM,
        members("consumer", "classic", "share", "streams", empty=False),
    )
    group_coordinator_threads = integer(4, HIGH, at_least(1), effect=ONE_LOOP)
    group_initial_rebalance_delay_ms = integer(3000, MEDIUM)
    group_max_session_timeout_ms = integer(1_800_000, MEDIUM)
    group_max_size = integer(INT_MAX, MEDIUM, at_least(1))
    group_min_session_timeout_ms = integer(6000, MEDIUM)
    offset_metadata_max_bytes = integer(4096, HIGH)
    offsets_commit_timeout_ms = integer(5000, HIGH, at_least(1))
    offsets_load_buffer_size = integer(5_242_880, HIGH, at_least(1), effect=NO_BUFFERS)
    offsets_retention_check_interval_ms = long(600_000, HIGH, at_least(1))
    offsets_retention_minutes = integer(10_080, HIGH, at_least(1))
    offsets_topic_compression_codec = integer(0, HIGH)
    offsets_topic_num_partitions = integer(50, HIGH, at_least(1))
    offsets_topic_replication_factor = short(3, HIGH, at_least(1))
    offsets_topic_segment_bytes = integer(104_857_600, HIGH, at_least(1))
    share_coordinator_state_topic_min_isr = short(2, HIGH, at_least(1))
    share_coordinator_state_topic_num_partitions = integer(50, HIGH, at_least(1))
    share_coordinator_state_topic_replication_factor = short(3, HIGH, at_least(1))
    share_coordinator_state_topic_segment_bytes = integer(104_857_600, HIGH, at_least(1))


class GroupResourceSettings(
    ConsumerGroupConfigs, ShareMembershipConfigs, ShareGroupConfigs, StreamsGroupConfigs
):
    """The configs of a group of any kind."""
