"""Metrics of groups of all kinds, of share groups' records, and of transactions."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import KAFKA_EXPORTER, Metric, counter, gauge

_OFFSET: Final = "consumergroup topic partition"
_SHARE: Final = "group topic partition"


def _classic(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.coordinator.group:type=GroupMetadataManager,name={name} Value"
    metric = f"kafka_coordinator_group_groupmetadatamanager_{name.lower()}"
    return gauge(metric, "", unit, text, source)


def _groups(name: str, labels: str, unit: str, text: str) -> Metric:
    source = f"kafka.server:type=group-coordinator-metrics {name}"
    metric = f"kafka_server_group_coordinator_metrics_{name.replace('-', '_')}"
    return gauge(metric, labels, unit, text, source)


def _sessions(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.server:type=ShareSessionCache,name={name} Value"
    return gauge(f"kafka_server_sharesessioncache_{name.lower()}", "", unit, text, source)


COORDINATORS: Final = (
    _groups("group-count", "protocol", "groups", "Groups of a kind that this broker coordinates"),
    _groups("classic-group-count", "state", "groups", "Classic groups in a state"),
    _groups("consumer-group-count", "state", "groups", "Consumer groups (KIP-848) in a state"),
    _groups("share-group-count", "state", "groups", "Share groups in a state"),
    _groups("streams-group-count", "state", "groups", "Streams groups in a state"),
    _groups("num-partitions", "state", "partitions", "Partitions of `__consumer_offsets` led here"),
    _groups("offset-count", "", "offsets", "Committed offsets"),
    _groups("offset-commit-count", "", "offsets", "Commits of offsets since the start"),
    _groups("offset-expiration-count", "", "offsets", "Offsets that expired since the start"),
    _groups("offset-deletion-count", "", "offsets", "Offsets that were deleted since the start"),
    _groups(
        "group-completed-rebalance-count",
        "",
        "rebalances",
        "Rebalances of classic groups that ended with an assignment, since the start",
    ),
    _groups("consumer-group-rebalance-count", "", "rebalances", "New epochs of consumer groups"),
    _groups("share-group-rebalance-count", "", "rebalances", "New epochs of share groups"),
    _groups("streams-group-rebalance-count", "", "rebalances", "New epochs of streams groups"),
    counter(
        "kwire_coordinator_loads_total",
        "coordinator",
        "partitions",
        "Partitions that a coordinator replayed before it served them",
    ),
    counter(
        "kwire_coordinator_load_seconds_total", "coordinator", "seconds", "Time of these replays"
    ),
    gauge(
        "kwire_coordinator_load_longest_seconds",
        "coordinator",
        "seconds",
        "Time of the longest of these replays",
    ),
    _classic("NumOffsets", "offsets", "Committed offsets"),
    _classic("NumGroups", "groups", "Classic groups that this broker coordinates"),
    _classic("NumGroupsEmpty", "groups", "Classic groups without members"),
    _classic("NumGroupsPreparingRebalance", "groups", "Classic groups whose members are joining"),
    _classic("NumGroupsCompletingRebalance", "groups", "Classic groups that wait for assignments"),
    _classic("NumGroupsStable", "groups", "Classic groups whose members have assignments"),
    _classic("NumGroupsDead", "groups", "Always 0: groups that are deleted are gone at once"),
    gauge(
        "kafka_consumergroup_members",
        "consumergroup",
        "members",
        "Members of a group of any kind",
        KAFKA_EXPORTER,
    ),
    gauge(
        "kafka_consumergroup_current_offset",
        _OFFSET,
        "offset",
        "Offset that a group has committed",
        KAFKA_EXPORTER,
    ),
    gauge(
        "kafka_consumergroup_lag",
        _OFFSET,
        "offsets",
        "Offsets from a group's committed one to the end of the partition",
        KAFKA_EXPORTER,
    ),
    gauge("kwire_group_state", "group type state", "", "1 for the state in which a group is"),
    gauge(
        "kwire_group_epoch",
        "group type",
        "",
        "Generation of a classic group, epoch of any other; each rebalance raises it",
    ),
    gauge(
        "kwire_group_last_rebalance_timestamp_seconds",
        "group type",
        "seconds",
        "When the last rebalance of a group began, since 1970; `/slow` says why",
    ),
    gauge(
        "kwire_streams_group_tasks",
        "group role",
        "tasks",
        "Tasks that the members of a streams group have: active, standby or warmup",
    ),
    gauge(
        "kwire_share_partition_start_offset",
        _SHARE,
        "offset",
        "Offset before which a share group has finished all records",
    ),
    gauge(
        "kwire_share_partition_lag",
        _SHARE,
        "records",
        "Records that a share group has not finished",
    ),
    gauge(
        "kwire_share_partition_records",
        f"{_SHARE} state",
        "records",
        "Records in flight to a share group, by their delivery state",
    ),
    gauge(
        "kwire_share_partition_deliveries_max",
        _SHARE,
        "deliveries",
        "The highest delivery count of a record in flight",
    ),
    counter(
        "kafka_server_sharegroupmetrics_recordacknowledgements_total",
        "ackType",
        "records",
        "Records that members of share groups acknowledged, by the type",
        "kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType=* Count",
    ),
    counter(
        "kwire_dead_letters_total", "", "records", "Records of share groups with a dead letter"
    ),
    counter(
        "kwire_dead_letters_given_up_total",
        "",
        "records",
        "Records that were archived although their dead letters could not be written",
    ),
    gauge(
        "kafka_server_share_coordinator_metrics_num_partitions",
        "state",
        "partitions",
        "Partitions of `__share_group_state` led here",
        "kafka.server:type=share-coordinator-metrics,state=* num-partitions",
    ),
    _sessions("ShareSessionsCount", "sessions", "Members of share groups that read here"),
    _sessions("SharePartitionsCount", "partitions", "Partitions in all share sessions"),
    gauge("kwire_transactions", "state", "transactions", "Transactional ids by state"),
    gauge(
        "kwire_transaction_oldest_open_seconds",
        "",
        "seconds",
        "Age of the transaction that is open longest; 0 without any",
    ),
)
