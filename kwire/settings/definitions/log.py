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
    CORDONED,
    JAVA,
    KEYS_ARE_A_SET,
    NO_PURGING,
    ONE_INTERVAL,
    ONE_LOOP,
    TIERED_STORAGE,
)
from kwire.settings.validators import at_least, between, between_or, members, one_of
from kwire.settings.values import LONG_MAX


class LogSettings(Settings):
    """Topics and logs: segments, retention, flushing, cleaning, compression, replication.

    `kwire.settings.definitions.topics` says which of them is the default of which topic config.
    """

    auto_create_topics_enable = boolean(True, HIGH)
    compression_gzip_level = integer(-1, MEDIUM, between_or(1, 9, -1), mode=CLUSTER_WIDE)
    compression_lz4_level = integer(9, MEDIUM, between(1, 17), mode=CLUSTER_WIDE)
    compression_type = string(
        "producer",
        HIGH,
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        mode=CLUSTER_WIDE,
    )
    compression_zstd_level = integer(3, MEDIUM, between(-131_072, 22), mode=CLUSTER_WIDE)
    cordoned_log_dirs = strings(
        (), MEDIUM, members(nullable=True), mode=PER_BROKER, effect=CORDONED
    )
    create_topic_policy_class_name = java_class(LOW, effect=JAVA)
    default_replication_factor = integer(1, MEDIUM)
    delete_records_purgatory_purge_interval_requests = integer(1, MEDIUM, effect=NO_PURGING)
    delete_topic_enable = boolean(True, HIGH)
    fetch_max_bytes = integer(57_671_680, MEDIUM, at_least(1024))
    fetch_purgatory_purge_interval_requests = integer(1000, MEDIUM, effect=NO_PURGING)
    follower_fetch_last_tiered_offset_enable = boolean(
        False, MEDIUM, mode=CLUSTER_WIDE, effect=TIERED_STORAGE
    )
    log_cleaner_backoff_ms = long(15_000, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    log_cleaner_dedupe_buffer_size = long(134_217_728, MEDIUM, mode=CLUSTER_WIDE)
    log_cleaner_delete_retention_ms = long(86_400_000, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    log_cleaner_enable = boolean(True, MEDIUM)
    log_cleaner_io_buffer_load_factor = double(
        0.9, MEDIUM, mode=CLUSTER_WIDE, effect=KEYS_ARE_A_SET
    )
    log_cleaner_io_buffer_size = integer(524_288, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    log_cleaner_io_max_bytes_per_second = double(sys.float_info.max, MEDIUM, mode=CLUSTER_WIDE)
    log_cleaner_max_compaction_lag_ms = long(LONG_MAX, MEDIUM, at_least(1), mode=CLUSTER_WIDE)
    log_cleaner_min_cleanable_ratio = double(0.5, MEDIUM, between(0, 1), mode=CLUSTER_WIDE)
    log_cleaner_min_compaction_lag_ms = long(0, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    log_cleaner_threads = integer(1, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    log_cleanup_policy = strings(
        ("delete",), MEDIUM, members("compact", "delete"), mode=CLUSTER_WIDE
    )
    log_dir = strings(("/tmp/kafka-logs",), HIGH, members(empty=False))
    log_dir_failure_timeout_ms = long(30_000, LOW, at_least(1), effect=CLUSTER)
    log_dirs = directories(HIGH, members(empty=False, nullable=True))
    log_flush_interval_messages = long(LONG_MAX, HIGH, at_least(1), mode=CLUSTER_WIDE)
    log_flush_interval_ms = optional_long(HIGH, mode=CLUSTER_WIDE)
    log_flush_offset_checkpoint_interval_ms = integer(60_000, HIGH, at_least(0))
    log_flush_scheduler_interval_ms = long(LONG_MAX, HIGH)
    log_flush_start_offset_checkpoint_interval_ms = integer(60_000, HIGH, at_least(0))
    log_index_interval_bytes = integer(4096, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    log_index_size_max_bytes = integer(10_485_760, MEDIUM, at_least(4), mode=CLUSTER_WIDE)
    log_initial_task_delay_ms = long(30_000, LOW, at_least(0), internal=True, effect=ONE_INTERVAL)
    log_local_retention_bytes = long(
        -2, MEDIUM, at_least(-2), mode=CLUSTER_WIDE, effect=TIERED_STORAGE
    )
    log_local_retention_ms = long(
        -2, MEDIUM, at_least(-2), mode=CLUSTER_WIDE, effect=TIERED_STORAGE
    )
    log_message_timestamp_after_max_ms = long(3_600_000, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    log_message_timestamp_before_max_ms = long(LONG_MAX, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    log_message_timestamp_type = string(
        "CreateTime", MEDIUM, one_of("CreateTime", "LogAppendTime"), mode=CLUSTER_WIDE
    )
    log_preallocate = boolean(False, MEDIUM, mode=CLUSTER_WIDE)
    log_retention_bytes = long(-1, HIGH, mode=CLUSTER_WIDE)
    log_retention_check_interval_ms = long(300_000, MEDIUM, at_least(1))
    log_retention_hours = integer(168, HIGH)
    log_retention_minutes = optional_integer(HIGH)
    log_retention_ms = optional_long(HIGH, mode=CLUSTER_WIDE)
    log_roll_hours = integer(168, HIGH, at_least(1))
    log_roll_jitter_hours = integer(0, HIGH, at_least(0))
    log_roll_jitter_ms = optional_long(HIGH, mode=CLUSTER_WIDE)
    log_roll_ms = optional_long(HIGH, mode=CLUSTER_WIDE)
    log_segment_bytes = integer(1_073_741_824, HIGH, at_least(1_048_576), mode=CLUSTER_WIDE)
    log_segment_delete_delay_ms = long(60_000, HIGH, at_least(0), mode=CLUSTER_WIDE)
    max_incremental_fetch_session_cache_slots = integer(1000, MEDIUM, at_least(0))
    max_request_partition_size_limit = integer(2000, MEDIUM, at_least(1))
    message_max_bytes = integer(1_048_588, HIGH, at_least(0), mode=CLUSTER_WIDE)
    min_insync_replicas = integer(1, HIGH, at_least(1), mode=CLUSTER_WIDE)
    num_partitions = integer(1, MEDIUM, at_least(1))
    num_recovery_threads_per_data_dir = integer(
        2, HIGH, at_least(1), mode=CLUSTER_WIDE, effect=ONE_LOOP
    )
    num_replica_alter_log_dirs_threads = optional_integer(HIGH, effect=ONE_LOOP)
    num_replica_fetchers = integer(1, HIGH, at_least(1), mode=CLUSTER_WIDE)
    producer_purgatory_purge_interval_requests = integer(1000, MEDIUM, effect=NO_PURGING)
    replica_fetch_backoff_ms = integer(1000, MEDIUM, at_least(0))
    replica_fetch_max_bytes = integer(1_048_576, MEDIUM, at_least(0))
    replica_fetch_min_bytes = integer(1, HIGH)
    replica_fetch_response_max_bytes = integer(10_485_760, MEDIUM, at_least(0))
    replica_fetch_wait_max_ms = integer(500, HIGH)
    replica_high_watermark_checkpoint_interval_ms = long(5000, HIGH)
    replica_lag_time_max_ms = long(30_000, HIGH)
    replica_selector_class = optional_string(MEDIUM)
    replica_socket_receive_buffer_bytes = integer(65_536, HIGH)
    replica_socket_timeout_ms = integer(30_000, HIGH)
    replication_quota_window_num = integer(11, LOW, at_least(1))
    replication_quota_window_size_seconds = integer(1, LOW, at_least(1))
    unclean_leader_election_enable = boolean(False, HIGH, mode=CLUSTER_WIDE)
    unclean_leader_election_interval_ms = long(
        300_000, MEDIUM, at_least(1), internal=True, effect=CLUSTER
    )
