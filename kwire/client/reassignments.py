"""Reassignments of replicas (KIP-455): what is under way, asking for new ones, taking them back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.connection import Connection
from kwire.client.errors import Misuse, check
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

AT_ONCE_MAX: Final = 10_000
"""Partitions of one request: some 200 kB."""


class Reassignment(NamedTuple):
    """One that is under way: `replicas` are all there are meanwhile, the adding ones among them."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that there will be."""
        return tuple(each for each in self.replicas if each not in self.removing)


def reassignments_of(connection: Connection) -> list[Reassignment]:
    """Those under way, by the controller (or whoever hands the question on to it)."""
    reply = connection.call(ListPartitionReassignmentsRequest(topics=None))
    check(reply.error_code, "reassignments", reply.error_message)
    return sorted(
        Reassignment(
            TopicPartition(topic.name, each.partition_index),
            tuple(each.replicas),
            tuple(each.adding_replicas),
            tuple(each.removing_replicas),
        )
        for topic in reply.topics
        for each in topic.partitions
    )


def list_reassignments(cluster: Cluster) -> list[Reassignment]:
    """Those under way."""
    return cluster.retrying(lambda: reassignments_of(at_controller(cluster)))


def at_controller(cluster: Cluster) -> Connection:
    """The controller's connection, which may be another's than a moment ago."""
    cluster.refresh([])
    return cluster.controller()


def alter_reassignments(
    cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, tuple[int, str | None]]:
    """Give partitions these replicas, the preferred leader first; None takes a reassignment back.

    Returns what was refused: an error code and the broker's words for it.
    """
    refused: dict[TopicPartition, tuple[int, str | None]] = {}
    places = sorted(replicas)
    for start in range(0, len(places), AT_ONCE_MAX):
        some = {place: replicas[place] for place in places[start : start + AT_ONCE_MAX]}
        reply = _altered(cluster, some)
        refused |= {
            TopicPartition(topic.name, each.partition_index): (each.error_code, each.error_message)
            for topic in reply.responses
            for each in topic.partitions
            if each.error_code
        }
    return refused


def _altered(
    cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None]
) -> AlterPartitionReassignmentsResponse:
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for place, wanted in replicas.items():
        chosen = None if wanted is None else list(wanted)
        by_topic.setdefault(place.topic, []).append(ReassignablePartition(place.partition, chosen))

    def ask() -> AlterPartitionReassignmentsResponse:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=int(cluster.timeout_s * 1000),
            topics=[ReassignableTopic(name, partitions) for name, partitions in by_topic.items()],
        )
        reply: AlterPartitionReassignmentsResponse = at_controller(cluster).call(request)
        check(reply.error_code, "alter reassignments", reply.error_message)
        return reply

    return cluster.retrying(ask)


# -- the file of kafka-reassign-partitions

PLAN_VERSION: Final = 1


def plan_object(replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """A plan as Kafka's own tool reads and writes it."""
    return {
        "version": PLAN_VERSION,
        "partitions": [
            {"topic": place.topic, "partition": place.partition, "replicas": list(ids)}
            for place, ids in sorted(replicas.items())
        ],
    }


def read_plan(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """A plan of Kafka's own tool, or of `kwire cluster reassign --json`.  Raises Misuse.

    A directory that is chosen for a replica (`log_dirs`) has to be "any".
    """
    try:
        return _plan_of(json.loads(text))
    except (ValueError, LookupError, TypeError) as problem:
        raise Misuse(f"that is no plan of a reassignment: {problem}") from problem


def _plan_of(said: dict[str, object]) -> dict[TopicPartition, tuple[int, ...]]:
    if said["version"] != PLAN_VERSION:
        raise ValueError(f"version {said['version']} is not known")
    entries = said["partitions"]
    if not isinstance(entries, list) or not entries:
        raise ValueError("it names no partitions")
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for entry in entries:
        place = TopicPartition(str(entry["topic"]), int(entry["partition"]))
        replicas = tuple(int(each) for each in entry["replicas"])
        if place in found:
            raise ValueError(f"{place} is named twice")
        if not replicas or len(set(replicas)) < len(replicas):
            raise ValueError(f"{place} has the replicas {list(replicas)}")
        if any(directory != "any" for directory in entry.get("log_dirs", ())):
            raise ValueError(f"{place} names directories, which is another request")
        found[place] = replicas
    return found
