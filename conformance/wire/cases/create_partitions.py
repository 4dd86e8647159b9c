"""Cases of CreatePartitions: more, fewer and as many, with and without assignments."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.conformance.access.requests import MISSING, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.CREATE_PARTITIONS)


def access_request(version: int, topic_id: bytes) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name, 1, None) for name in (TOPIC, MISSING)]
    return CreatePartitionsRequest(topics, 10_000, True)


def grow(
    name: str, count: int, assignments: list[list[int]] | None = None, validate_only: bool = False
) -> CreatePartitionsRequest:
    """Return a request for `count` partitions of one topic."""
    nodes = None
    if assignments is not None:
        nodes = [CreatePartitionsAssignment(brokers) for brokers in assignments]
    topic = CreatePartitionsTopic(name, count, nodes)
    return CreatePartitionsRequest([topic], 30_000, validate_only)


@case("numbers")
def numbers(stage: Stage) -> None:
    """A topic of 2 partitions gets as many, fewer, 0, -1 and 4; only the last is allowed."""
    topic = stage.topic(partitions=2)
    for count in (2, 1, 0, -1, 4):
        stage.send(grow(topic.name, count))
    stage.await_cluster_changes()
    stage.send(MetadataRequest([MetadataRequestTopic(name=topic.name)], False), 9)


@case("only validated")
def validated(stage: Stage) -> None:
    """Validated growth is answered, and the topic keeps its one partition."""
    topic = stage.topic()
    for count in (3, 1):
        stage.send(grow(topic.name, count, validate_only=True))
    stage.send(MetadataRequest([MetadataRequestTopic(name=topic.name)], False), 9)


@case("assignments")
def assigned(stage: Stage) -> None:
    """Assignments for one new partition: too few, too many, empty, repeated and unknown replicas.

    Node 99 does not exist; only the last assignment is valid.
    """
    topic, node = stage.topic(), stage.broker.node_id
    tried: list[list[list[int]]] = [
        [],
        [[node], [node]],
        [[99]],
        [[]],
        [[node, node]],
        [[node, 99]],
        [[-1]],
        [[node]],
    ]
    for assignments in tried:
        stage.send(grow(topic.name, 2, assignments))


@case("several, one twice, one unknown")
def several(stage: Stage) -> None:
    """A request with several topics: an unknown topic, then a topic that is named twice."""
    a, b = stage.topic("a"), stage.topic("b")
    request = grow(a.name, 2)
    request.topics += grow(stage.name("nothing"), 2).topics + grow(b.name, 2).topics
    stage.send(request)
    request = grow(a.name, 3)
    request.topics += grow(b.name, 3).topics + grow(a.name, 4).topics
    stage.send(request)


@case("too many")
def too_many(stage: Stage) -> None:
    stage.send(grow(stage.topic().name, 1_000_000, validate_only=True))


case.requests(
    {
        "no topics": lambda stage: CreatePartitionsRequest([], 1000),
        "the empty name": lambda stage: grow("", 2),
        "unknown topic": lambda stage: grow(stage.name("nothing"), 2),
    }
)
