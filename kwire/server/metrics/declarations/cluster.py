"""Metrics of the cluster: its controller, its brokers and its metadata."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, gauge


def _controller(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.controller:type=KafkaController,name={name} Value"
    return gauge(f"kafka_controller_kafkacontroller_{name.lower()}", "", unit, text, source)


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
)
