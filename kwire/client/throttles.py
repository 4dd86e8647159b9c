"""Throttles of replication during reassignments (KIP-73): set, find and remove them.

A topic lists its throttled replicas in two configs, as `partition:broker`.  A broker limits what it
sends for leader.replication.throttled.replicas and what it fetches for
follower.replication.throttled.replicas.  The rates (bytes per second) are configs of each broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import (
    ConfigAlteration,
    ConfigResource,
    ConfigResourceKind,
    Source,
    alter_configs,
    describe_configs,
    topic_settings,
)
from kwire.client.errors import BrokerRefused, ClientError
from kwire.client.spreading import ReplicaMove
from kwire.codecs.errors import ErrorCode

LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
OF_TOPIC: Final = (LEADERS, FOLLOWERS)
OF_BROKER: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class Throttled(NamedTuple):
    """The brokers that have throttle rates, and the topics that have throttled replicas."""

    brokers: list[int]
    topics: list[str]


def lists_of(moves: Mapping[TopicPartition, ReplicaMove]) -> dict[str, dict[str, str]]:
    """The configs of each topic: every present replica may send, every added replica fetches."""
    sending: dict[str, list[str]] = {}
    fetching: dict[str, list[str]] = {}
    for (topic, index), move in sorted(moves.items()):
        if move.adding:
            sending.setdefault(topic, []).extend(f"{index}:{broker}" for broker in move.before)
            fetching.setdefault(topic, []).extend(f"{index}:{broker}" for broker in move.adding)
    return {
        topic: {LEADERS: ",".join(sending[topic]), FOLLOWERS: ",".join(fetching[topic])}
        for topic in sending
    }


def to_be_throttled(cluster: Cluster, moves: Mapping[TopicPartition, ReplicaMove]) -> Throttled:
    """The running brokers and the topics that take part in moves."""
    participants = {
        broker for move in moves.values() if move.adding for broker in (*move.before, *move.adding)
    }
    return Throttled(sorted(participants & cluster.nodes.keys()), sorted(lists_of(moves)))


def set_throttles(
    cluster: Cluster, moves: Mapping[TopicPartition, ReplicaMove], bytes_per_s: int
) -> None:
    """Set the throttles of `to_be_throttled`, before the moves begin."""
    for topic, lists in lists_of(moves).items():
        changes = {name: (ConfigAlteration.SET, value) for name, value in lists.items()}
        alter_configs(cluster, ConfigResource(ConfigResourceKind.TOPIC, topic), changes)
    for broker in to_be_throttled(cluster, moves).brokers:
        rates = {name: (ConfigAlteration.SET, str(bytes_per_s)) for name in OF_BROKER}
        alter_configs(cluster, ConfigResource(ConfigResourceKind.BROKER, str(broker)), rates)


def find_throttles(cluster: Cluster, topics: Iterable[str]) -> Throttled:
    """The brokers that have a dynamic rate of their own, and those of `topics` that have a list."""
    brokers = [
        broker
        for broker in sorted(cluster.nodes)
        if any(
            config.config_source == Source.DYNAMIC_BROKER
            for config in describe_configs(
                cluster, ConfigResource(ConfigResourceKind.BROKER, str(broker)), OF_BROKER
            )
        )
    ]
    settings = topic_settings(cluster, topics, OF_TOPIC)
    throttled = sorted(topic for topic, configs in settings.items() if any(configs.values()))
    return Throttled(brokers, throttled)


def take_off(cluster: Cluster, throttled: Throttled) -> None:
    """Remove throttles.  Deleted topics are skipped.

    If a broker does not respond, the throttles of the others are removed, and then the ClientError
    is raised.
    """
    failures: list[ClientError] = []
    resources = [
        *(
            (ConfigResource(ConfigResourceKind.TOPIC, topic), OF_TOPIC)
            for topic in throttled.topics
        ),
        *(
            (ConfigResource(ConfigResourceKind.BROKER, str(id_)), OF_BROKER)
            for id_ in throttled.brokers
        ),
    ]
    for resource, names in resources:
        try:
            alter_configs(
                cluster, resource, {name: (ConfigAlteration.DELETE, None) for name in names}
            )
        except ClientError as error:
            if not _says_deleted(error):
                failures.append(error)
    if failures:
        raise failures[0]


def _says_deleted(error: ClientError) -> bool:
    return isinstance(error, BrokerRefused) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
