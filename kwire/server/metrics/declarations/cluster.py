"""Metrics of the cluster: its controller, its brokers and its metadata."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, counter, gauge


def _controller(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.controller:type=KafkaController,name={name} Value"
    return gauge(f"kafka_controller_kafkacontroller_{name.lower()}", "", unit, text, source)


def _loader(name: str, labels: str, text: str) -> Metric:
    source = f"kafka.server:type=MetadataLoader,name={name} Value"
    return gauge(f"kafka_server_metadataloader_{name.lower()}", labels, "", text, source)


def _node(name: str, text: str) -> Metric:
    source = f"kafka.server:type=node-metrics,feature-name=* {name}"
    metric = f"kafka_server_node_metrics_{name.replace('-', '_')}"
    return gauge(metric, "feature_name", "level", text, source)


CLUSTER: Final = (
    _controller("ActiveControllerCount", "", "1 if this broker is the controller"),
    _controller("ActiveBrokerCount", "brokers", "Live brokers"),
    _controller("FencedBrokerCount", "brokers", "Registered brokers that are not live"),
    _controller("GlobalTopicCount", "topics", "Topics of the cluster"),
    _controller("GlobalPartitionCount", "partitions", "Partitions of the cluster"),
    _controller("OfflinePartitionsCount", "partitions", "Partitions without a leader"),
    _controller(
        "PreferredReplicaImbalanceCount",
        "partitions",
        "Partitions whose leader is not their first replica",
    ),
    _controller("NewActiveControllersCount", "", "How often the cluster got another controller"),
    counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "",
        "elections",
        "Elections of a replica that was not in sync, while this broker was the controller",
        "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec Count",
    ),
    counter(
        "kwire_leader_elections_total",
        "",
        "elections",
        "How often a partition of the cluster got another leader; every broker counts all",
    ),
    gauge(
        "kwire_partition_offline",
        "topic partition",
        "",
        "1 for a partition without a leader, of at most 1,000; every broker names all",
    ),
    gauge("kwire_controller_epoch", "", "", "Epoch of the controller; it grows with each election"),
    _loader("CurrentControllerId", "", "Id of the controller; -1 if there is none"),
    _loader("CurrentMetadataVersion", "", "Level of `metadata.version`"),
    _loader("FinalizedLevel", "featureName", "Level at which a feature is in force"),
    _node("minimum-supported-level", "Lowest level of a feature that this broker supports"),
    _node("maximum-supported-level", "Highest level of a feature that this broker supports"),
    gauge(
        "kafka_server_broker_metadata_metrics_last_applied_record_offset",
        "",
        "offset",
        "Version of the metadata that this broker has; with KRaft the offset of their last record",
        "kafka.server:type=broker-metadata-metrics last-applied-record-offset",
    ),
    gauge("kwire_acl_count", "", "entries", "Entries of access control lists"),
)
