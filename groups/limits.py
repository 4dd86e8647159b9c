"""What the broker's settings allow groups to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a member that does not yet know its id may wait for its join to complete.

Its session cannot run, for it cannot send heartbeats, and a parked connection is not read, so a
client that gave up cannot be told from one that waits; it is expected to come again.  Apache Kafka
has five minutes, which no setting changes.
"""


class MigrationPolicy(Flag):
    """`group.consumer.migration.policy`: how a group with members may change its protocol."""

    DISABLED = 0
    UPGRADE = 1
    """From the classic protocol to the consumer one."""
    DOWNGRADE = 2
    BIDIRECTIONAL = 3


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The settings of the same names; times in ms, with Apache Kafka's defaults."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_share_initialize_retry_interval_ms: int = 30_000
    group_share_max_size: int = 200
    group_streams_max_size: int = 2_147_483_647
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
