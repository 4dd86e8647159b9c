"""The broker's settings that limit groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member that does not know its id yet may wait for its join to complete.

It cannot send heartbeats, so it has no session.  The broker does not read from a connection whose
request is parked, so it cannot see that a client gave up.  Apache Kafka uses five minutes as well,
and has no setting for it.
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
    """The broker's settings of the same names, with Apache Kafka's defaults; times in ms."""

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
    keeps_topology_descriptions: bool = False
    """Whether a plug-in stores the descriptions of topologies of streams groups."""
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
