"""Reassignments of replicas (KIP-455): list, start and cancel them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import Misuse, check
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

AT_ONCE_MAX: Final = 10_000
"""The most partitions in one request, which then has about 200 kB."""


class Reassignment(NamedTuple):
    """A reassignment in progress.  `replicas` are all present replicas, with the added ones."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


def reassignments_of(connection: BrokerConnection) -> list[Reassignment]:
    """The reassignments in progress, by a controller or a broker that forwards to it."""
    reply = connection.call(ListPartitionReassignmentsRequest(topics=None))
    check(reply.error_code, "reassignments", reply.error_message)
    return sorted(
        Reassignment(
            TopicPartition(topic.name, partition.partition_index),
            tuple(partition.replicas),
            tuple(partition.adding_replicas),
            tuple(partition.removing_replicas),
        )
        for topic in reply.topics
        for partition in topic.partitions
    )


def list_reassignments(cluster: Cluster) -> list[Reassignment]:
    """The reassignments in progress."""
    return cluster.retrying(lambda: reassignments_of(at_controller(cluster)))


def at_controller(cluster: Cluster) -> BrokerConnection:
    """A connection to the present controller, after a refresh of the metadata."""
    cluster.refresh([])
    return cluster.controller()


def alter_reassignments(
    cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, tuple[int, str | None]]:
    """Move partitions to these replicas, the preferred leader first; None cancels a reassignment.

    Returns the refused partitions, each with an error code and the broker's message.
    """
    refused: dict[TopicPartition, tuple[int, str | None]] = {}
    partitions = sorted(replicas)
    for start in range(0, len(partitions), AT_ONCE_MAX):
        part = {p: replicas[p] for p in partitions[start : start + AT_ONCE_MAX]}
        reply = _alter(cluster, part)
        refused |= {
            TopicPartition(topic.name, each.partition_index): (each.error_code, each.error_message)
            for topic in reply.responses
            for each in topic.partitions
            if each.error_code
        }
    return refused


def _alter(
    cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None]
) -> AlterPartitionReassignmentsResponse:
    """Starts reassignments to the given replicas, or cancels those whose replicas are None.  Errors
    of single partitions are in the response; errors of the request raise BrokerRefused."""
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), target in replicas.items():
        brokers = None if target is None else list(target)
        by_topic.setdefault(topic, []).append(ReassignablePartition(index, brokers))

    def ask() -> AlterPartitionReassignmentsResponse:
        """Sends the request to the controller once."""
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=int(cluster.timeout_s * 1000),
            topics=[ReassignableTopic(name, partitions) for name, partitions in by_topic.items()],
        )
        reply: AlterPartitionReassignmentsResponse = at_controller(cluster).call(request)
        check(reply.error_code, "alter reassignments", reply.error_message)
        return reply

    return cluster.retrying(ask)


# -- the file format of kafka-reassign-partitions

PLAN_VERSION: Final = 1


def plan_object(replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """A plan in the JSON form of kafka-reassign-partitions."""
    return {
        "version": PLAN_VERSION,
        "partitions": [
            {"topic": topic, "partition": index, "replicas": list(brokers)}
            for (topic, index), brokers in sorted(replicas.items())
        ],
    }


def read_plan(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """The plan in a file of kafka-reassign-partitions or `kwire cluster reassign --json`.

    The log directory of a replica (`log_dirs`) has to be "any".  Raises Misuse.
    """
    try:
        return _plan_of(json.loads(text))
    except (ValueError, LookupError, TypeError) as problem:
        raise Misuse(f"this is not a reassignment plan: {problem}") from problem


def _plan_of(plan: dict[str, object]) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the target replicas of each partition in a plan of kafka-reassign-partitions.  Raises
    ValueError, KeyError or TypeError if the plan is wrong."""
    if plan["version"] != PLAN_VERSION:
        raise ValueError(f"version {plan['version']} is unknown")
    entries = plan["partitions"]
    if not isinstance(entries, list) or not entries:
        raise ValueError("it names no partitions")
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    for entry in entries:
        partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
        replicas = tuple(int(each) for each in entry["replicas"])
        if partition in targets:
            raise ValueError(f"{partition} is listed twice")
        if not replicas or len(set(replicas)) < len(replicas):
            raise ValueError(f"{partition} has the replicas {list(replicas)}")
        if any(directory != "any" for directory in entry.get("log_dirs", ())):
            raise ValueError(f"{partition} has log directories; these cannot be chosen here")
        targets[partition] = replicas
    return targets
