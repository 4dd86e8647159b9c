"""The progress of reassignments: the bytes to copy, and the bytes that are copied."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import ClientError
from kwire.client.inspection.survey import Sizes, all_topics, from_each, partitions_of, sizes_on
from kwire.client.reassignments import list_reassignments
from kwire.client.spreading import ReplicaMove

OnBrokers = Mapping[int, Mapping[TopicPartition, int]]
"""Sizes of replicas in bytes by broker and partition, for brokers that respond."""


SETTLING_S: Final = 10.0
"""How long the metadata of brokers may be behind the controller."""


class Progress(NamedTuple):
    """The progress of the requested moves."""

    partitions_left: int
    copied_bytes: int
    total_bytes: int


def sizes_by_broker(cluster: Cluster) -> dict[int, dict[TopicPartition, int]]:
    """The bytes of all replicas on the brokers that respond."""
    results = from_each(cluster, lambda _, connection: sizes_on(connection))
    return {
        broker: sizes.size_bytes for broker, sizes in results.items() if isinstance(sizes, Sizes)
    }


def size_of(partition: TopicPartition, sizes: OnBrokers) -> int:
    """The size of the largest replica in bytes, which usually is the leader's."""
    return max((on_broker.get(partition, 0) for on_broker in sizes.values()), default=0)


def bytes_to_copy(moves: Mapping[TopicPartition, ReplicaMove], sizes: OnBrokers) -> dict[int, int]:
    """The bytes that each broker receives, by the present sizes."""
    by_broker: dict[int, int] = {}
    for partition, move in moves.items():
        for broker in move.adding:
            by_broker[broker] = by_broker.get(broker, 0) + size_of(partition, sizes)
    return by_broker


def copied_bytes(moves: Mapping[TopicPartition, ReplicaMove], sizes: OnBrokers) -> int:
    """The bytes that the receiving brokers have of the new replicas."""
    return sum(
        min(sizes.get(broker, {}).get(partition, 0), size_of(partition, sizes))
        for partition, move in moves.items()
        for broker in move.adding
    )


def await_moves(
    cluster: Cluster,
    moves: Mapping[TopicPartition, ReplicaMove],
    on_progress: Callable[[Progress], None],
    pause: Callable[[], None],
) -> list[TopicPartition]:
    """Wait until no reassignment of these partitions is in progress.

    It checks again and again, calls `on_progress` after each check and `pause` between two.
    Returns the partitions that then have other replicas than requested, because somebody cancelled
    the reassignment or requested another one.
    """
    while True:
        try:
            left = {each.partition for each in list_reassignments(cluster)} & moves.keys()
            sizes = sizes_by_broker(cluster)
        except ClientError as error:  # A broker that stops must not end the wait.
            cluster.tell_of_trouble(error)
        else:
            total = sum(bytes_to_copy(moves, sizes).values())
            on_progress(Progress(len(left), copied_bytes(moves, sizes), total))
            if not left:
                return _settled(cluster, moves, pause)
        pause()


def _settled(
    cluster: Cluster, moves: Mapping[TopicPartition, ReplicaMove], pause: Callable[[], None]
) -> list[TopicPartition]:
    """Waits up to `SETTLING_S` seconds until the replicas are where `moves` put them; returns the
    partitions whose replicas still differ."""
    deadline = time.monotonic() + SETTLING_S
    while (diverging := _diverging(cluster, moves)) and time.monotonic() < deadline:
        pause()
    return diverging


def _diverging(
    cluster: Cluster, moves: Mapping[TopicPartition, ReplicaMove]
) -> list[TopicPartition]:
    """The partitions whose replicas are not the requested ones.  Deleted topics are left out."""
    states = partitions_of(all_topics(cluster))
    return [
        partition
        for partition, move in sorted(moves.items())
        if partition in states and tuple(states[partition].replica_nodes) != move.after
    ]
