"""The broker settings of tiered storage (KIP-405)."""

from __future__ import annotations

from kwire.settings.definition import (
    CLUSTER_WIDE,
    LOW,
    MEDIUM,
    Settings,
    boolean,
    double,
    integer,
    long,
    optional_string,
    string,
)
from kwire.settings.effects import TIERED_STORAGE
from kwire.settings.validators import at_least, between, non_empty
from kwire.settings.values import LONG_MAX


class RemoteStorageSettings(Settings, effect=TIERED_STORAGE):
    """Tiered storage (KIP-405)."""

    remote_fetch_max_wait_ms = integer(500, MEDIUM, at_least(1), mode=CLUSTER_WIDE)
    remote_list_offsets_request_timeout_ms = long(30_000, MEDIUM, at_least(1), mode=CLUSTER_WIDE)
    remote_log_index_file_cache_total_size_bytes = long(
        1_073_741_824, LOW, at_least(1), mode=CLUSTER_WIDE
    )
    remote_log_index_file_cache_ttl_ms = long(900_000, LOW, at_least(-1), internal=True)
    remote_log_manager_copier_thread_pool_size = integer(10, MEDIUM, at_least(1), mode=CLUSTER_WIDE)
    remote_log_manager_copy_max_bytes_per_second = long(
        LONG_MAX, MEDIUM, at_least(1), mode=CLUSTER_WIDE
    )
    remote_log_manager_copy_quota_window_num = integer(11, MEDIUM, at_least(1))
    remote_log_manager_copy_quota_window_size_seconds = integer(1, MEDIUM, at_least(1))
    remote_log_manager_expiration_thread_pool_size = integer(
        10, MEDIUM, at_least(1), mode=CLUSTER_WIDE
    )
    remote_log_manager_fetch_max_bytes_per_second = long(
        LONG_MAX, MEDIUM, at_least(1), mode=CLUSTER_WIDE
    )
    remote_log_manager_fetch_quota_window_num = integer(11, MEDIUM, at_least(1))
    remote_log_manager_fetch_quota_window_size_seconds = integer(1, MEDIUM, at_least(1))
    remote_log_manager_follower_thread_pool_size = integer(
        2, MEDIUM, at_least(1), mode=CLUSTER_WIDE
    )
    remote_log_manager_task_interval_ms = long(30_000, LOW, at_least(1))
    remote_log_manager_task_retry_backoff_max_ms = long(30_000, LOW, at_least(1), internal=True)
    remote_log_manager_task_retry_backoff_ms = long(500, LOW, at_least(1), internal=True)
    remote_log_manager_task_retry_jitter = double(0.2, LOW, between(0, 0.5), internal=True)
    remote_log_manager_thread_pool_size = integer(2, MEDIUM, at_least(1))
    remote_log_metadata_custom_metadata_max_bytes = integer(128, LOW, at_least(0))
    remote_log_metadata_manager_class_name = string(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        MEDIUM,
        non_empty,
    )
    remote_log_metadata_manager_class_path = optional_string(MEDIUM)
    remote_log_metadata_manager_impl_prefix = string("rlmm.config.", MEDIUM, non_empty)
    remote_log_metadata_manager_listener_name = optional_string(MEDIUM, non_empty)
    remote_log_reader_max_pending_tasks = integer(100, MEDIUM, at_least(1))
    remote_log_reader_threads = integer(10, MEDIUM, at_least(1), mode=CLUSTER_WIDE)
    remote_log_storage_manager_class_name = optional_string(MEDIUM, non_empty)
    remote_log_storage_manager_class_path = optional_string(MEDIUM)
    remote_log_storage_manager_impl_prefix = string("rsm.config.", MEDIUM, non_empty)
    remote_log_storage_system_enable = boolean(False, MEDIUM)
