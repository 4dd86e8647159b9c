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
    java_class,
    long,
    optional_string,
    short,
    string,
    strings,
)
from kwire.settings.effects import (
    JAVA,
    NO_BUFFERS,
    NO_LINGER,
    NO_PURGING,
    NO_WARMUP,
    ONE_ASSIGNOR,
    ONE_LOOP,
    SHARE_STATE_PRUNING,
)
from kwire.settings.validators import (
    at_least,
    between,
    dead_letter_topic,
    members,
    offset_reset,
    one_of,
    one_of_any_case,
)
from kwire.settings.values import INT_MAX


class ConsumerGroupSettings(Settings):
    """Consumer groups: the broker assigns the partitions (KIP-848)."""

    group_consumer_assignment_interval_ms = integer(
        1000,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The shortest time between two assignments of a consumer group.",
    )
    group_consumer_assignor_offload_enable = boolean(
        True, MEDIUM, mode=CLUSTER_WIDE, internal=True, effect=ONE_LOOP
    )
    group_consumer_assignors = strings(
        ("uniform", "range"),
        MEDIUM,
        members(empty=False),
        doc="The assignors that members of a consumer group may choose (`uniform`, `range`). The "
        "first is used if no member chooses one.",
    )
    group_consumer_heartbeat_interval_ms = integer(
        5000, MEDIUM, at_least(1), doc="How often the members of a consumer group send heartbeats."
    )
    group_consumer_max_assignment_interval_ms = integer(
        15_000,
        MEDIUM,
        at_least(0),
        doc="The largest allowed value of `consumer.assignment.interval.ms`.",
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        15_000,
        MEDIUM,
        at_least(1),
        doc="The largest allowed value of `consumer.heartbeat.interval.ms`.",
    )
    group_consumer_max_session_timeout_ms = integer(
        60_000,
        MEDIUM,
        at_least(1),
        doc="The largest allowed value of `consumer.session.timeout.ms`.",
    )
    group_consumer_max_size = integer(
        INT_MAX, MEDIUM, at_least(1), doc="The largest number of members of a consumer group."
    )
    group_consumer_migration_policy = string(
        "bidirectional",
        MEDIUM,
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        doc="How a group with members may change its protocol: `upgrade` changes it to the consumer"
        " protocol when the first member with that protocol joins, `downgrade` changes it to "
        "the classic protocol when the last such member leaves.",
    )
    group_consumer_min_assignment_interval_ms = integer(
        0,
        MEDIUM,
        at_least(0),
        doc="The smallest allowed value of `consumer.assignment.interval.ms`.",
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        5000,
        MEDIUM,
        at_least(1),
        doc="The smallest allowed value of `consumer.heartbeat.interval.ms`.",
    )
    group_consumer_min_session_timeout_ms = integer(
        45_000,
        MEDIUM,
        at_least(1),
        doc="The smallest allowed value of `consumer.session.timeout.ms`.",
    )
    group_consumer_regex_refresh_interval_ms = integer(
        600_000, MEDIUM, at_least(10_000), internal=True
    )
    group_consumer_session_timeout_ms = integer(
        45_000,
        MEDIUM,
        at_least(1),
        doc="How long a member of a consumer group may send no heartbeat before the group removes "
        "it.",
    )


class ConsumerGroupConfigs(Settings):
    """The configs of a consumer group."""

    consumer_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    consumer_assignor_offload_enable = boolean(True, MEDIUM, internal=True, effect=ONE_LOOP)
    consumer_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    consumer_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))


class ShareMembershipSettings(Settings):
    """The members of share groups (KIP-932)."""

    group_share_assignment_interval_ms = integer(
        1000,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The shortest time between two assignments of a share group.",
    )
    group_share_heartbeat_interval_ms = integer(
        5000, MEDIUM, at_least(1), doc="How often the members of a share group send heartbeats."
    )
    group_share_max_assignment_interval_ms = integer(
        15_000,
        MEDIUM,
        at_least(0),
        doc="The largest allowed value of `share.assignment.interval.ms`.",
    )
    group_share_max_heartbeat_interval_ms = integer(
        15_000,
        MEDIUM,
        at_least(1),
        doc="The largest allowed value of `share.heartbeat.interval.ms`.",
    )
    group_share_max_session_timeout_ms = integer(
        60_000, MEDIUM, at_least(1), doc="The largest allowed value of `share.session.timeout.ms`."
    )
    group_share_max_size = integer(
        200, MEDIUM, between(1, 1000), doc="The largest number of members of a share group."
    )
    group_share_min_assignment_interval_ms = integer(
        0, MEDIUM, at_least(0), doc="The smallest allowed value of `share.assignment.interval.ms`."
    )
    group_share_min_heartbeat_interval_ms = integer(
        5000,
        MEDIUM,
        at_least(1),
        doc="The smallest allowed value of `share.heartbeat.interval.ms`.",
    )
    group_share_min_session_timeout_ms = integer(
        45_000, MEDIUM, at_least(1), doc="The smallest allowed value of `share.session.timeout.ms`."
    )
    group_share_session_timeout_ms = integer(
        45_000,
        MEDIUM,
        at_least(1),
        doc="How long a member of a share group may send no heartbeat before the group removes it.",
    )


class ShareGroupSettings(Settings):
    """The records of share groups."""

    group_share_delivery_count_limit = integer(
        5,
        MEDIUM,
        between(2, 10),
        doc="How often a share group delivers a record before it gives the record up.",
    )
    group_share_max_delivery_count_limit = integer(
        10, MEDIUM, between(5, 25), doc="The largest allowed value of `share.delivery.count.limit`."
    )
    group_share_max_partition_max_record_locks = integer(
        4000,
        MEDIUM,
        between(2000, 10_000),
        doc="The largest allowed value of `share.partition.max.record.locks`.",
    )
    group_share_max_record_lock_duration_ms = integer(
        60_000,
        MEDIUM,
        between(30_000, 3_600_000),
        doc="The largest allowed value of `share.record.lock.duration.ms`.",
    )
    group_share_max_share_sessions = integer(
        2000,
        MEDIUM,
        at_least(1),
        doc="The largest number of share sessions, that is of members of share groups that read at "
        "the same time.",
    )
    group_share_min_delivery_count_limit = integer(
        2, MEDIUM, between(2, 5), doc="The smallest allowed value of `share.delivery.count.limit`."
    )
    group_share_min_partition_max_record_locks = integer(
        100,
        MEDIUM,
        between(100, 2000),
        doc="The smallest allowed value of `share.partition.max.record.locks`.",
    )
    group_share_min_record_lock_duration_ms = integer(
        15_000,
        MEDIUM,
        between(1000, 30_000),
        doc="The smallest allowed value of `share.record.lock.duration.ms`.",
    )
    group_share_partition_max_record_locks = integer(
        2000,
        MEDIUM,
        between(100, 10_000),
        doc="The number of records of one partition that may be acquired at the same time.",
    )
    group_share_record_lock_duration_ms = integer(
        30_000,
        MEDIUM,
        between(1000, 3_600_000),
        doc="How long a member holds the acquisition lock on a record.",
    )


class ShareCoordinatorSettings(Settings):
    """The share coordinator, which stores the state of share partitions."""

    group_share_assignor_offload_enable = boolean(
        True, MEDIUM, mode=CLUSTER_WIDE, internal=True, effect=ONE_LOOP
    )
    group_share_assignors = strings(("simple",), MEDIUM, members(empty=False), effect=ONE_ASSIGNOR)
    group_share_dlq_manager_class_name = string(
        "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
        MEDIUM,
        internal=True,
        effect=JAVA,
    )
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
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        500,
        MEDIUM,
        between(0, 500),
        doc="The number of changes of a share partition that the share coordinator writes before it"
        " writes the whole state again.",
    )
    share_coordinator_state_topic_compression_codec = integer(
        0,
        HIGH,
        doc="The compression codec of the topic of share state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 "
        "zstd.",
    )
    share_coordinator_state_topic_prune_interval_ms = integer(
        300_000, LOW, at_least(1), internal=True, effect=SHARE_STATE_PRUNING
    )
    share_coordinator_threads = integer(1, MEDIUM, at_least(1), effect=ONE_LOOP)
    share_coordinator_write_timeout_ms = integer(
        5000,
        HIGH,
        at_least(1),
        doc="How long the share coordinator waits until a record of its log is replicated.",
    )
    share_fetch_purgatory_purge_interval_requests = integer(1000, MEDIUM, effect=NO_PURGING)


class ShareMembershipConfigs(Settings):
    """The configs of a share group about its members."""

    share_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    share_assignor_offload_enable = boolean(True, MEDIUM, internal=True, effect=ONE_LOOP)
    share_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    share_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))


class ShareGroupConfigs(Settings):
    """The configs of a share group about its records."""

    errors_deadletterqueue_copy_record_enable = boolean(
        False,
        MEDIUM,
        doc="Whether a record in the dead-letter topic has the key and the value of the record "
        "that the share group gave up.",
    )
    errors_deadletterqueue_topic_name = string(
        "",
        MEDIUM,
        dead_letter_topic,
        doc="The topic that records go to when a share group rejects them or gives them up; empty "
        "means none.",
    )
    share_auto_offset_reset = string(
        "latest",
        MEDIUM,
        offset_reset,
        doc="Where a share group starts to read: latest, earliest, or by_duration: followed by how "
        "long ago.",
    )
    share_delivery_count_limit = integer(5, MEDIUM, at_least(2))
    share_isolation_level = string(
        "read_uncommitted",
        MEDIUM,
        one_of("read_committed", "read_uncommitted"),
        doc="Whether a share group reads records of open and aborted transactions "
        "(read_uncommitted) or only committed records (read_committed).",
    )
    share_partition_max_record_locks = integer(2000, MEDIUM, at_least(100))
    share_record_lock_duration_ms = integer(30_000, MEDIUM, at_least(1000))
    share_renew_acknowledge_enable = boolean(
        True, MEDIUM, doc="Whether members may renew their acquisition locks."
    )


class StreamsGroupSettings(Settings):
    """Groups of Kafka Streams (KIP-1071)."""

    group_streams_acceptable_recovery_lag = long(10_000, MEDIUM, at_least(0), internal=True)
    group_streams_assignment_interval_ms = integer(
        1000,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The shortest time between two assignments of a streams group.",
    )
    group_streams_assignor_offload_enable = boolean(
        True, MEDIUM, mode=CLUSTER_WIDE, internal=True, effect=ONE_LOOP
    )
    group_streams_assignors = strings(
        ("sticky",),
        MEDIUM,
        members(empty=False),
        doc="The assignors that streams groups may choose (`sticky`). The first is used if a group "
        "chooses none.",
    )
    group_streams_heartbeat_interval_ms = integer(
        5000, MEDIUM, at_least(1), doc="How often the members of a streams group send heartbeats."
    )
    group_streams_initial_rebalance_delay_ms = integer(
        3000, MEDIUM, at_least(0), doc="How long a new streams group waits for more members."
    )
    group_streams_max_assignment_interval_ms = integer(
        15_000,
        MEDIUM,
        at_least(0),
        doc="The largest allowed value of `streams.assignment.interval.ms`.",
    )
    group_streams_max_heartbeat_interval_ms = integer(
        15_000,
        MEDIUM,
        at_least(1),
        doc="The largest allowed value of `streams.heartbeat.interval.ms`.",
    )
    group_streams_max_session_timeout_ms = integer(
        60_000,
        MEDIUM,
        at_least(1),
        doc="The largest allowed value of `streams.session.timeout.ms`.",
    )
    group_streams_max_size = integer(
        INT_MAX, MEDIUM, at_least(1), doc="The largest number of members of a streams group."
    )
    group_streams_max_standby_replicas = integer(
        2, MEDIUM, at_least(0), doc="The largest allowed value of `streams.num.standby.replicas`."
    )
    group_streams_max_warmup_replicas = integer(
        20, MEDIUM, at_least(0), internal=True, effect=NO_WARMUP
    )
    group_streams_min_assignment_interval_ms = integer(
        0,
        MEDIUM,
        at_least(0),
        doc="The smallest allowed value of `streams.assignment.interval.ms`.",
    )
    group_streams_min_heartbeat_interval_ms = integer(
        5000,
        MEDIUM,
        at_least(1),
        doc="The smallest allowed value of `streams.heartbeat.interval.ms`.",
    )
    group_streams_min_session_timeout_ms = integer(
        45_000,
        MEDIUM,
        at_least(1),
        doc="The smallest allowed value of `streams.session.timeout.ms`.",
    )
    group_streams_min_task_offset_interval_ms = integer(15_000, MEDIUM, at_least(1), internal=True)
    group_streams_num_standby_replicas = integer(
        0, MEDIUM, at_least(0), doc="The number of standby copies of each task's state."
    )
    group_streams_num_warmup_replicas = integer(
        2, MEDIUM, at_least(0), internal=True, effect=NO_WARMUP
    )
    group_streams_rack_aware_assignment_tags = strings(
        (),
        LOW,
        members(),
        doc="The client tags, such as `zone`, that each member of a streams group must have. An "
        "assignor may use them to place standby copies; `sticky` does not.",
    )
    group_streams_session_timeout_ms = integer(
        45_000,
        MEDIUM,
        at_least(1),
        doc="How long a member of a streams group may send no heartbeat before the group removes "
        "it.",
    )
    group_streams_task_offset_interval_ms = integer(60_000, MEDIUM, at_least(1), internal=True)
    group_streams_topology_description_plugin_class = java_class(
        MEDIUM,
        doc="A Python class that stores the descriptions of the topologies of streams groups, such "
        "as `kwire.coordinators.runtime.description_plugins.TopologyFile`. A Java class cannot be "
        "loaded.",
    )


class StreamsGroupConfigs(Settings):
    """The configs of a streams group."""

    streams_acceptable_recovery_lag = long(10_000, MEDIUM, at_least(0), internal=True)
    streams_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    streams_assignor_name = optional_string(
        MEDIUM,
        doc="The assignor of a streams group; by default the first of `group.streams.assignors`.",
    )
    streams_assignor_offload_enable = boolean(True, MEDIUM, internal=True, effect=ONE_LOOP)
    streams_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    streams_initial_rebalance_delay_ms = integer(3000, MEDIUM, at_least(0))
    streams_num_standby_replicas = integer(0, MEDIUM, at_least(0))
    streams_num_warmup_replicas = integer(2, MEDIUM, at_least(0), internal=True, effect=NO_WARMUP)
    streams_rack_aware_assignment_tags = strings((), LOW, members())
    streams_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))
    streams_task_offset_interval_ms = integer(60_000, MEDIUM, at_least(1), internal=True)


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
        doc="The group protocols that the broker serves. Without `consumer` it has no groups of "
        "KIP-848.",
    )
    group_coordinator_threads = integer(4, HIGH, at_least(1), effect=ONE_LOOP)
    group_initial_rebalance_delay_ms = integer(
        3000, MEDIUM, doc="How long a new classic group waits for more members."
    )
    group_max_session_timeout_ms = integer(
        1_800_000,
        MEDIUM,
        doc="The longest session timeout that a member of a classic group may have.",
    )
    group_max_size = integer(
        INT_MAX, MEDIUM, at_least(1), doc="The largest number of members of a classic group."
    )
    group_min_session_timeout_ms = integer(
        6000, MEDIUM, doc="The shortest session timeout that a member of a classic group may have."
    )
    offset_metadata_max_bytes = integer(
        4096,
        HIGH,
        doc="The largest size of the metadata that a client stores with a committed offset.",
    )
    offsets_commit_timeout_ms = integer(
        5000,
        HIGH,
        at_least(1),
        doc="How long the group coordinator waits until a record of its log is replicated.",
    )
    offsets_load_buffer_size = integer(5_242_880, HIGH, at_least(1), effect=NO_BUFFERS)
    offsets_retention_check_interval_ms = long(
        600_000, HIGH, at_least(1), doc="How often the coordinator looks for expired offsets."
    )
    offsets_retention_minutes = integer(
        10_080, HIGH, at_least(1), doc="How long the offsets of an empty group are kept."
    )
    offsets_topic_compression_codec = integer(
        0,
        HIGH,
        doc="The compression codec of the topic of committed offsets: 0 none, 1 gzip, 2 snappy, 3 "
        "lz4, 4 zstd.",
    )
    offsets_topic_num_partitions = integer(
        50, HIGH, at_least(1), doc="The number of partitions of the topic of committed offsets."
    )
    offsets_topic_replication_factor = short(
        3,
        HIGH,
        at_least(1),
        doc="The number of replicas of the topic of committed offsets; by default not more than "
        "there are brokers.",
    )
    offsets_topic_segment_bytes = integer(
        104_857_600, HIGH, at_least(1), doc="Segment size of the topic of committed offsets."
    )
    share_coordinator_state_topic_min_isr = short(
        2, HIGH, at_least(1), doc="min.insync.replicas of the topic of share state."
    )
    share_coordinator_state_topic_num_partitions = integer(
        50, HIGH, at_least(1), doc="The number of partitions of the topic of share state."
    )
    share_coordinator_state_topic_replication_factor = short(
        3,
        HIGH,
        at_least(1),
        doc="The number of replicas of the topic of share state; by default not more than there are"
        " brokers.",
    )
    share_coordinator_state_topic_segment_bytes = integer(
        104_857_600, HIGH, at_least(1), doc="Segment size of the topic of share state."
    )


class GroupResourceSettings(
    ConsumerGroupConfigs, ShareMembershipConfigs, ShareGroupConfigs, StreamsGroupConfigs
):
    """The configs of a group of any kind."""
