"""Reassignments as they go on: how much there is to copy, and how much of it has been."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import ClientError
from kwire.client.reassignments import list_reassignments
from kwire.client.spreading import Move
from kwire.client.survey import Sizes, all_topics, from_each, partitions_of, sizes_on

OnBrokers = Mapping[int, Mapping[TopicPartition, int]]
"""Broker -> partition -> bytes, of those that answer."""


SETTLING_S: Final = 10.0
"""How long brokers may be behind the controller in what they say of a partition."""


class Progress(NamedTuple):
    """Of moves that were asked for."""

    partitions_left: int
    copied_bytes: int
    total_bytes: int


def sizes_by_broker(cluster: Cluster) -> dict[int, dict[TopicPartition, int]]:
    """Bytes of all replicas, of the brokers that answer."""
    found = from_each(cluster, lambda _, connection: sizes_on(connection))
    return {broker: sizes.size_bytes for broker, sizes in found.items() if isinstance(sizes, Sizes)}


def size_of(place: TopicPartition, sizes: OnBrokers) -> int:
    """Of the largest replica: the leader's, or one that knows more than it."""
    return max((of.get(place, 0) for of in sizes.values()), default=0)


def bytes_to_copy(moves: Mapping[TopicPartition, Move], sizes: OnBrokers) -> dict[int, int]:
    """What each broker will get, as things are now."""
    found: dict[int, int] = {}
    for place, move in moves.items():
        for broker in move.adding:
            found[broker] = found.get(broker, 0) + size_of(place, sizes)
    return found


def copied_bytes(moves: Mapping[TopicPartition, Move], sizes: OnBrokers) -> int:
    """What those that are to get replicas have of them."""
    return sum(
        min(sizes.get(broker, {}).get(place, 0), size_of(place, sizes))
        for place, move in moves.items()
        for broker in move.adding
    )


def await_moves(
    cluster: Cluster,
    moves: Mapping[TopicPartition, Move],
    on_progress: Callable[[Progress], None],
    pause: Callable[[], None],
) -> list[TopicPartition]:
    """Until none of them is under way; tells of each look, and pauses between two.

    Returns what has other replicas in the end: somebody took it back, or asked for others.
    """
    while True:
        try:
            left = {each.partition for each in list_reassignments(cluster)} & moves.keys()
            sizes = sizes_by_broker(cluster)
        except ClientError as error:  # a broker that goes away must not end the wait
            cluster.tell_of_trouble(error)
        else:
            total = sum(bytes_to_copy(moves, sizes).values())
            on_progress(Progress(len(left), copied_bytes(moves, sizes), total))
            if not left:
                return _settled(cluster, moves, pause)
        pause()


def _settled(
    cluster: Cluster, moves: Mapping[TopicPartition, Move], pause: Callable[[], None]
) -> list[TopicPartition]:
    deadline = time.monotonic() + SETTLING_S
    while (elsewhere := _elsewhere(cluster, moves)) and time.monotonic() < deadline:
        pause()
    return elsewhere


def _elsewhere(cluster: Cluster, moves: Mapping[TopicPartition, Move]) -> list[TopicPartition]:
    """Topics that have been deleted meanwhile are nowhere, which is nobody's fault."""
    states = partitions_of(all_topics(cluster))
    return [
        place
        for place, move in sorted(moves.items())
        if place in states and tuple(states[place].replica_nodes) != move.after
    ]
