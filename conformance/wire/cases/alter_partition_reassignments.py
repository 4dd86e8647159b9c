"""Cases of AlterPartitionReassignments on one broker: valid and refused reassignments."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.conformance.access.requests import MISSING
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ALTER_PARTITION_REASSIGNMENTS)


def access_request(version: int, topic_id: bytes) -> AlterPartitionReassignmentsRequest:
    topic = ReassignableTopic(MISSING, [ReassignablePartition(0, None)])
    return AlterPartitionReassignmentsRequest(10_000, topics=[topic])


Reassignment = tuple[int, Sequence[int] | None]
"""A partition and its replicas; None cancels its reassignment."""


def reassign(
    *topics: tuple[str, Sequence[Reassignment]],
    timeout_ms: int = 30_000,
    keeps_factor: bool = False,
) -> AlterPartitionReassignmentsRequest:
    """Return a reassignment; with `keeps_factor` the number of replicas must stay (v1, KIP-860)."""
    reassignable = [
        ReassignableTopic(
            name,
            [
                ReassignablePartition(index, None if replicas is None else list(replicas))
                for index, replicas in reassignments
            ],
        )
        for name, reassignments in topics
    ]
    return AlterPartitionReassignmentsRequest(timeout_ms, not keeps_factor, reassignable)


@case("to where it is")
def as_it_is(stage: Stage) -> None:
    """A reassignment to the current replicas is accepted and leaves no ongoing reassignment."""
    topic, node = stage.topic(partitions=3), stage.broker.node_id
    stage.send(reassign((topic.name, [(0, [node])])))
    stage.send(reassign((topic.name, [(2, [node]), (0, [node])])))
    stage.send(ListPartitionReassignmentsRequest())
    stage.await_cluster_changes()
    stage.send(MetadataRequest([MetadataRequestTopic(name=topic.name)], False), 9)


@case("replicas that cannot be")
def impossible(stage: Stage) -> None:
    """Empty, repeated, negative and unknown replicas are refused; the metadata stay as they were.

    Node 99 and node 98 do not exist.
    """
    topic, node = stage.topic(), stage.broker.node_id
    tried: list[list[int]] = [[], [node, node], [-1], [node, -1], [99], [node, 99], [99, 98, node]]
    for replicas in tried:
        stage.send(reassign((topic.name, [(0, replicas)])))
    stage.await_cluster_changes()
    stage.send(MetadataRequest([MetadataRequestTopic(name=topic.name)], False), 9)


@case("ended, where none is under way")
def cancelled(stage: Stage) -> None:
    """Null replicas cancel a reassignment; here there is none to cancel."""
    topic, node = stage.topic(partitions=2), stage.broker.node_id
    stage.send(reassign((topic.name, [(0, None)])))
    stage.send(reassign((topic.name, [(0, None), (1, [node]), (2, None)])))
    stage.send(reassign((stage.name("nothing"), [(0, None)])))


@case("partitions that are not there")
def unknown(stage: Stage) -> None:
    """Reassignments of missing topics and partitions are refused, with known and unknown
    replicas."""
    topic, node = stage.topic(), stage.broker.node_id
    stage.send(reassign((topic.name, [(0, [node]), (1, [node]), (-1, [node])])))
    stage.send(reassign((stage.name("nothing"), [(0, [node])]), (topic.name, [(0, [node])])))
    stage.send(reassign((stage.name("nothing"), [(0, [99])])))
    stage.send(reassign(("", [(0, [node])])))


@case("named twice")
def twice(stage: Stage) -> None:
    """A request names the same partition or topic twice."""
    topic, node = stage.topic(partitions=2), stage.broker.node_id
    stage.send(reassign((topic.name, [(0, [node]), (0, [node])])))
    stage.send(reassign((topic.name, [(0, [node]), (0, [99])])))
    stage.send(reassign((topic.name, [(0, [node])]), (topic.name, [(1, [node])])))


@case("the number of replicas must stay", since=1)
def factor(stage: Stage) -> None:
    """A reassignment that must keep the number of replicas has one, two and no replicas."""
    topic, node = stage.topic(), stage.broker.node_id
    for replicas in ([node], [node, 99], [99], [], None):
        stage.send(reassign((topic.name, [(0, replicas)]), keeps_factor=True))
    stage.send(reassign((stage.name("nothing"), [(0, [node])]), keeps_factor=True))


@case("no time")
def no_time(stage: Stage) -> None:
    topic, node = stage.topic(), stage.broker.node_id
    for timeout_ms in (0, -1):
        stage.send(reassign((topic.name, [(0, [node])]), timeout_ms=timeout_ms))


case.requests(
    {
        "no topics": lambda stage: reassign(),
        "a topic without partitions": lambda stage: reassign((stage.name("nothing"), [])),
    }
)
