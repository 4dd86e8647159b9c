"""Throttles of replication while replicas move (KIP-73): set, found and taken off.

A broker limits, in bytes a second, what it sends of the partitions of a topic's
leader.replication.throttled.replicas and fetches of its follower.replication.throttled.replicas.
Both are lists of `partition:broker`; the rates are settings of each broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import (
    Operation,
    Resource,
    ResourceType,
    Source,
    alter_configs,
    describe_configs,
    topic_settings,
)
from kwire.client.errors import BrokerRefused, ClientError
from kwire.client.spreading import Move
from kwire.codecs.errors import ErrorCode

LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
OF_TOPIC: Final = (LEADERS, FOLLOWERS)
OF_BROKER: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class Throttled(NamedTuple):
    """Where throttles are set, whoever has set them."""

    brokers: list[int]
    topics: list[str]


def lists_of(moves: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """The settings of each topic: all that have a partition send it, those that get it fetch it."""
    sending: dict[str, list[str]] = {}
    fetching: dict[str, list[str]] = {}
    for place, move in sorted(moves.items()):
        if move.adding:
            sending.setdefault(place.topic, []).extend(
                f"{place.partition}:{broker}" for broker in move.before
            )
            fetching.setdefault(place.topic, []).extend(
                f"{place.partition}:{broker}" for broker in move.adding
            )
    return {
        topic: {LEADERS: ",".join(sending[topic]), FOLLOWERS: ",".join(fetching[topic])}
        for topic in sending
    }


def to_be_throttled(cluster: Cluster, moves: Mapping[TopicPartition, Move]) -> Throttled:
    """Who takes part in moves.  A broker that is away neither sends nor fetches."""
    taking_part = {
        broker for move in moves.values() if move.adding for broker in (*move.before, *move.adding)
    }
    return Throttled(sorted(taking_part & cluster.nodes.keys()), sorted(lists_of(moves)))


def set_throttles(cluster: Cluster, moves: Mapping[TopicPartition, Move], bytes_per_s: int) -> None:
    """Before the moves begin, on those of `to_be_throttled`."""
    for topic, lists in lists_of(moves).items():
        changes = {name: (Operation.SET, value) for name, value in lists.items()}
        alter_configs(cluster, Resource(ResourceType.TOPIC, topic), changes)
    for broker in to_be_throttled(cluster, moves).brokers:
        rates = {name: (Operation.SET, str(bytes_per_s)) for name in OF_BROKER}
        alter_configs(cluster, Resource(ResourceType.BROKER, str(broker)), rates)


def find_throttles(cluster: Cluster, topics: Iterable[str]) -> Throttled:
    """Which brokers have a rate set for themselves, and which of `topics` a list."""
    brokers = [
        broker
        for broker in sorted(cluster.nodes)
        if any(
            config.config_source == Source.DYNAMIC_BROKER
            for config in describe_configs(
                cluster, Resource(ResourceType.BROKER, str(broker)), OF_BROKER
            )
        )
    ]
    settings = topic_settings(cluster, topics, OF_TOPIC)
    return Throttled(brokers, sorted(topic for topic, of in settings.items() if any(of.values())))


def take_off(cluster: Cluster, throttled: Throttled) -> None:
    """Let them replicate as fast as they can; of a topic that is gone nothing is left to do.

    A broker that does not answer does not keep the others from it: raises ClientError at the end.
    """
    failures: list[ClientError] = []
    resources = [
        *((Resource(ResourceType.TOPIC, topic), OF_TOPIC) for topic in throttled.topics),
        *((Resource(ResourceType.BROKER, str(each)), OF_BROKER) for each in throttled.brokers),
    ]
    for resource, names in resources:
        try:
            alter_configs(cluster, resource, {name: (Operation.DELETE, None) for name in names})
        except ClientError as error:
            if not _is_gone(error):
                failures.append(error)
    if failures:
        raise failures[0]


def _is_gone(error: ClientError) -> bool:
    return isinstance(error, BrokerRefused) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
