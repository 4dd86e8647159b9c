"""The broker settings of topics, logs, their cleaning and their replication."""

from __future__ import annotations

import sys

from kwire.settings.definition import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    MEDIUM,
    PER_BROKER,
    Settings,
    boolean,
    directories,
    double,
    integer,
    java_class,
    long,
    optional_integer,
    optional_long,
    optional_string,
    string,
    strings,
)
from kwire.settings.effects import (
    CLUSTER,
    JAVA,
    KEYS_ARE_A_SET,
    NO_PURGING,
    ONE_INTERVAL,
    ONE_LOOP,
    TIERED_STORAGE,
)
from kwire.settings.validators import at_least, between, between_or, members, one_of
from kwire.settings.values import ARRAY_SIZE_MAX, LONG_MAX


class LogSettings(Settings):
    """Topics and logs: segments, retention, flushing, cleaning, compression, replication.

    `kwire.settings.definitions.topics` says which of them is the default of which topic config.
    """

    auto_create_topics_enable = boolean(
        True,
        HIGH,
        doc="Whether the broker creates an unknown topic when a client asks for its metadata.",
    )
    compression_gzip_level = integer(
        -1,
        MEDIUM,
        between_or(1, 9, -1),
        mode=CLUSTER_WIDE,
        doc="The level for compression.type=gzip; -1 is zlib's default.",
    )
    compression_lz4_level = integer(
        9, MEDIUM, between(1, 17), mode=CLUSTER_WIDE, doc="The level for compression.type=lz4."
    )
    compression_type = string(
        "producer",
        HIGH,
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        mode=CLUSTER_WIDE,
        doc="The codec that the broker stores batches with; producer keeps each batch as the "
        "producer compressed it.",
    )
    compression_zstd_level = integer(
        3,
        MEDIUM,
        between(-131_072, 22),
        mode=CLUSTER_WIDE,
        doc="The level for compression.type=zstd.",
    )
    cordoned_log_dirs = strings(
        (),
        MEDIUM,
        members(nullable=True),
        mode=PER_BROKER,
        doc="The log directories that get no new replicas, or * for all; if all are named, no "
        "replica is placed on this broker.",
    )
    create_topic_policy_class_name = java_class(LOW, effect=JAVA)
    default_replication_factor = integer(
        1, MEDIUM, doc="The number of replicas of a new topic whose creator does not give one."
    )
    delete_records_purgatory_purge_interval_requests = integer(1, MEDIUM, effect=NO_PURGING)
    delete_topic_enable = boolean(True, HIGH, doc="Whether topics can be deleted.")
    errors_deadletterqueue_auto_create_topics_enable = boolean(
        False,
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="Whether the broker creates the dead-letter topic of a share group if it does not "
        "exist.",
    )
    errors_deadletterqueue_topic_name_prefix = string(
        "dlq.",
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="How the name of a dead-letter topic must begin. Share groups write nothing to a topic "
        "with another name.",
    )
    fetch_max_bytes = integer(
        57_671_680, MEDIUM, at_least(1024), doc="The largest size of a Fetch response, in bytes."
    )
    fetch_purgatory_purge_interval_requests = integer(1000, MEDIUM, effect=NO_PURGING)
    follower_fetch_last_tiered_offset_enable = boolean(
        False, MEDIUM, mode=CLUSTER_WIDE, effect=TIERED_STORAGE
    )
    log_cleaner_backoff_ms = long(
        15_000,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="How long the cleaner sleeps when no log needs compaction.",
    )
    log_cleaner_dedupe_buffer_size = long(
        134_217_728,
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="Memory for the keys of the logs that are being compacted, in bytes, for all cleaner "
        "threads together.",
    )
    log_cleaner_delete_retention_ms = long(
        86_400_000,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="How long a compacted topic keeps a tombstone, the record that deletes a key.",
    )
    log_cleaner_enable = boolean(
        True, MEDIUM, doc="Whether the cleaner compacts topics with cleanup.policy=compact."
    )
    log_cleaner_io_buffer_load_factor = double(
        0.9, MEDIUM, mode=CLUSTER_WIDE, effect=KEYS_ARE_A_SET
    )
    log_cleaner_io_buffer_size = integer(
        524_288,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="Memory for reading logs during compaction, in bytes, for all cleaner threads "
        "together.",
    )
    log_cleaner_io_max_bytes_per_second = double(
        sys.float_info.max,
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="The most bytes that compaction reads and writes in a second.",
    )
    log_cleaner_max_compaction_lag_ms = long(
        LONG_MAX,
        MEDIUM,
        at_least(1),
        mode=CLUSTER_WIDE,
        doc="The longest time that a record stays uncompacted.",
    )
    log_cleaner_min_cleanable_ratio = double(
        0.5,
        MEDIUM,
        between(0, 1),
        mode=CLUSTER_WIDE,
        doc="The share of uncompacted bytes at which the cleaner compacts a log.",
    )
    log_cleaner_min_compaction_lag_ms = long(
        0,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The shortest time that a record stays uncompacted.",
    )
    log_cleaner_threads = integer(
        1,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The number of logs that the cleaner compacts at the same time.",
    )
    log_cleanup_policy = strings(
        ("delete",),
        MEDIUM,
        members("compact", "delete"),
        mode=CLUSTER_WIDE,
        doc="What happens to old segments: delete removes them by time and size, compact keeps the "
        "last record of each key. Both can be set.",
    )
    log_dir = strings(
        ("/tmp/kafka-logs",),
        HIGH,
        members(empty=False),
        doc="The log directory, if log.dirs is not set.",
    )
    log_dir_failure_timeout_ms = long(
        30_000,
        LOW,
        at_least(1),
        doc="Beside KRaft controllers: the broker stops if it cannot tell them for so long that a "
        "log directory has failed.",
    )
    log_dirs = directories(
        HIGH,
        members(empty=False, nullable=True),
        doc="The log directories, which hold the partitions.",
    )
    log_flush_interval_messages = long(
        LONG_MAX,
        HIGH,
        at_least(1),
        mode=CLUSTER_WIDE,
        doc="Number of appended records after which the log is flushed to disk.",
    )
    log_flush_interval_ms = optional_long(
        HIGH, mode=CLUSTER_WIDE, doc="The longest time before appended records are flushed to disk."
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        60_000,
        HIGH,
        at_least(0),
        doc="How often the broker writes the recovery points of its logs, the offsets up to which "
        "they are on disk.",
    )
    log_flush_scheduler_interval_ms = long(LONG_MAX, HIGH)
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000, HIGH, at_least(0), doc="How often the broker writes the log start offsets to disk."
    )
    log_index_interval_bytes = integer(
        4096,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="Number of bytes of records between two entries of the offset index.",
    )
    log_index_size_max_bytes = integer(
        10_485_760,
        MEDIUM,
        at_least(4),
        mode=CLUSTER_WIDE,
        doc="The largest size of a segment's index; the log starts a new segment when the index is "
        "full.",
    )
    log_initial_task_delay_ms = long(30_000, LOW, at_least(0), internal=True, effect=ONE_INTERVAL)
    log_local_retention_bytes = long(
        -2,
        MEDIUM,
        at_least(-2),
        mode=CLUSTER_WIDE,
        effect=TIERED_STORAGE,
        doc="Number of bytes that tiered storage keeps on the local disk; -2 means "
        "retention.bytes.",
    )
    log_local_retention_ms = long(
        -2,
        MEDIUM,
        at_least(-2),
        mode=CLUSTER_WIDE,
        effect=TIERED_STORAGE,
        doc="How long tiered storage keeps segments on the local disk; -2 means retention.ms.",
    )
    log_message_timestamp_after_max_ms = long(
        3_600_000,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="How far a record's timestamp may be ahead of the broker's clock.",
    )
    log_message_timestamp_before_max_ms = long(
        LONG_MAX,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="How far a record's timestamp may be behind the broker's clock.",
    )
    log_message_timestamp_type = string(
        "CreateTime",
        MEDIUM,
        one_of("CreateTime", "LogAppendTime"),
        mode=CLUSTER_WIDE,
        doc="The timestamp that a record has: CreateTime is the producer's, LogAppendTime is the "
        "time of the append.",
    )
    log_preallocate = boolean(
        False,
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="Whether the file of a new segment gets its full size at once.",
    )
    log_remote_copy_lag_bytes = long(
        -1,
        MEDIUM,
        at_least(-1),
        mode=CLUSTER_WIDE,
        effect=TIERED_STORAGE,
        doc="Number of bytes behind a segment at which it is copied to tiered storage, even before "
        "remote.copy.lag.ms; -1 means local.retention.bytes.",
    )
    log_remote_copy_lag_ms = long(
        0,
        MEDIUM,
        at_least(-1),
        mode=CLUSTER_WIDE,
        effect=TIERED_STORAGE,
        doc="Age of its newest record at which a segment is copied to tiered storage; -1 means "
        "local.retention.ms.",
    )
    log_retention_bytes = long(
        -1,
        HIGH,
        mode=CLUSTER_WIDE,
        doc="Size of a partition above which its oldest segments are deleted; -1 means no limit.",
    )
    log_retention_check_interval_ms = long(
        300_000, MEDIUM, at_least(1), doc="How often the broker looks for segments to delete."
    )
    log_retention_hours = integer(168, HIGH)
    log_retention_minutes = optional_integer(HIGH)
    log_retention_ms = optional_long(
        HIGH, mode=CLUSTER_WIDE, doc="Age above which segments are deleted; -1 means no limit."
    )
    log_roll_hours = integer(168, HIGH, at_least(1))
    log_roll_jitter_hours = integer(0, HIGH, at_least(0))
    log_roll_jitter_ms = optional_long(
        HIGH,
        mode=CLUSTER_WIDE,
        doc="A segment starts up to this much earlier than segment.ms says, by a random time, so "
        "that not all logs start one at once.",
    )
    log_roll_ms = optional_long(
        HIGH,
        mode=CLUSTER_WIDE,
        doc="Age at which the log starts a new segment even if the current one is not full.",
    )
    log_segment_bytes = integer(
        1_073_741_824,
        HIGH,
        at_least(1_048_576),
        mode=CLUSTER_WIDE,
        doc="Size at which the log starts a new segment.",
    )
    log_segment_delete_delay_ms = long(
        60_000,
        HIGH,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="How long a deleted file stays on disk, under a name that ends in .deleted.",
    )
    max_decompressed_message_bytes = integer(
        ARRAY_SIZE_MAX,
        MEDIUM,
        between(1, ARRAY_SIZE_MAX),
        mode=CLUSTER_WIDE,
        doc="The largest record in a compressed batch that the topic accepts, in bytes after "
        "decompression.",
    )
    max_incremental_fetch_session_cache_slots = integer(
        1000, MEDIUM, at_least(0), doc="The largest number of fetch sessions that the broker keeps."
    )
    max_request_partition_size_limit = integer(
        2000,
        MEDIUM,
        at_least(1),
        doc="The largest number of partitions in one DescribeTopicPartitions response.",
    )
    message_max_bytes = integer(
        1_048_588,
        HIGH,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The largest record batch that the topic accepts, in bytes as the producer sent it.",
    )
    min_insync_replicas = integer(
        1,
        HIGH,
        at_least(1),
        mode=CLUSTER_WIDE,
        doc="The number of in-sync replicas that acks=all needs. A topic with fewer replicas needs "
        "all of them.",
    )
    num_partitions = integer(
        1,
        MEDIUM,
        at_least(1),
        doc="The number of partitions of a new topic whose creator does not give one.",
    )
    num_recovery_threads_per_data_dir = integer(
        2,
        HIGH,
        at_least(1),
        mode=CLUSTER_WIDE,
        doc="The number of threads that recover the logs of a directory after an unclean stop.",
    )
    num_replica_alter_log_dirs_threads = optional_integer(HIGH, effect=ONE_LOOP)
    num_replica_fetchers = integer(
        1,
        HIGH,
        at_least(1),
        mode=CLUSTER_WIDE,
        doc="The number of connections to each leader that a follower fetches over.",
    )
    producer_purgatory_purge_interval_requests = integer(1000, MEDIUM, effect=NO_PURGING)
    replica_fetch_backoff_ms = integer(
        1000,
        MEDIUM,
        at_least(0),
        doc="How long a follower waits before it fetches a partition again after an error.",
    )
    replica_fetch_max_bytes = integer(
        1_048_576,
        MEDIUM,
        at_least(0),
        doc="The most bytes of one partition that a follower requests in one Fetch.",
    )
    replica_fetch_min_bytes = integer(
        1, HIGH, doc="The fewest bytes that a leader waits for before it answers a follower."
    )
    replica_fetch_response_max_bytes = integer(
        10_485_760, MEDIUM, at_least(0), doc="The most bytes that a follower requests in one Fetch."
    )
    replica_fetch_wait_max_ms = integer(
        500,
        HIGH,
        doc="How long a leader may wait for replica.fetch.min.bytes before it answers a follower.",
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        5000, HIGH, doc="How often the broker writes its high watermarks to disk."
    )
    replica_lag_time_max_ms = long(
        30_000,
        HIGH,
        doc="How long a follower may be behind the leader's log end offset before it leaves the "
        "in-sync replicas.",
    )
    replica_selector_class = optional_string(
        MEDIUM,
        doc="Which replica consumers read from: "
        "`org.apache.kafka.common.replica.RackAwareReplicaSelector` directs a consumer with a "
        "`client.rack` to an in-sync replica in that rack. Empty: from the leader.",
    )
    replica_socket_receive_buffer_bytes = integer(
        65_536,
        HIGH,
        doc="The receive buffer of a follower's connection to a leader; by default the system's "
        "size.",
    )
    replica_socket_timeout_ms = integer(
        30_000, HIGH, doc="How long a follower waits for a leader's response."
    )
    replication_quota_window_num = integer(
        11,
        LOW,
        at_least(1),
        doc="The number of time windows over which throttled replication is measured.",
    )
    replication_quota_window_size_seconds = integer(
        1, LOW, at_least(1), doc="The length of each of these windows."
    )
    unclean_leader_election_enable = boolean(
        False,
        HIGH,
        mode=CLUSTER_WIDE,
        doc="Whether a replica that is not in sync can become leader when no in-sync replica is "
        "available. Records may be lost.",
    )
    unclean_leader_election_interval_ms = long(
        300_000, MEDIUM, at_least(1), internal=True, effect=CLUSTER
    )
