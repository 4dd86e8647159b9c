"""The group configs, with the types, defaults and rules of Apache Kafka 4.3."""

from __future__ import annotations

from kwire.settings.definition import MEDIUM, Settings, boolean, integer, string
from kwire.settings.validators import at_least, offset_reset, one_of


class GroupResourceSettings(Settings):
    """What can be set on a consumer, share or streams group (KIP-848, KIP-932, KIP-1071)."""

    consumer_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    consumer_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    consumer_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))
    share_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    share_auto_offset_reset = string("latest", MEDIUM, offset_reset)
    share_delivery_count_limit = integer(5, MEDIUM, at_least(2))
    share_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    share_isolation_level = string(
        "read_uncommitted", MEDIUM, one_of("read_committed", "read_uncommitted")
    )
    share_partition_max_record_locks = integer(2000, MEDIUM, at_least(100))
    share_record_lock_duration_ms = integer(30_000, MEDIUM, at_least(1000))
    share_renew_acknowledge_enable = boolean(True, MEDIUM)
    share_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))
    streams_assignment_interval_ms = integer(1000, MEDIUM, at_least(0))
    streams_heartbeat_interval_ms = integer(5000, MEDIUM, at_least(1))
    streams_initial_rebalance_delay_ms = integer(3000, MEDIUM, at_least(0))
    streams_num_standby_replicas = integer(0, MEDIUM, at_least(0))
    streams_session_timeout_ms = integer(45_000, MEDIUM, at_least(1))
