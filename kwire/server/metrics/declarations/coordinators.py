"""Metrics of groups of all kinds, of share groups' records, and of transactions."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import KAFKA_EXPORTER, Metric, gauge

_OFFSET: Final = "consumergroup topic partition"

COORDINATORS: Final[tuple[Metric, ...]] = (
    gauge(
        "kafka_coordinator_group_groupmetadatamanager_numgroups",
        "",
        "groups",
        "Classic groups that this broker coordinates",
        "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups Value",
    ),
    gauge("kwire_groups", "type state", "groups", "Groups that this broker coordinates"),
    gauge(
        "kafka_consumergroup_members",
        "consumergroup",
        "members",
        "Members of a group that this broker coordinates",
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
        "records",
        "Records between a group's committed offset and the end of the partition",
        KAFKA_EXPORTER,
    ),
)
