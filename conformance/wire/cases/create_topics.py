"""Cases of CreateTopics: valid, invalid in each field, and only validated."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.conformance.access.requests import MISSING, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.CREATE_TOPICS)


def access_request(version: int, topic_id: bytes) -> CreateTopicsRequest:
    topics = [CreatableTopic(name, 1, 1) for name in (TOPIC, MISSING)]
    return CreateTopicsRequest(topics, 10_000, True)


TIMEOUT_MS = 30_000


def new_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: dict[str, str | None] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    """Return the description of one topic to create."""
    return CreatableTopic(
        name,
        partitions,
        replicas,
        [CreatableReplicaAssignment(i, nodes) for i, nodes in (assignments or {}).items()],
        [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
    )


def create(
    stage: Stage, *topics: CreatableTopic, validate_only: bool = False
) -> CreateTopicsRequest:
    """Build a request whose topics are deleted after the case."""
    if not validate_only:
        for topic in topics:
            if topic.name.startswith(stage.prefix):
                stage.delete_later(topic.name)
    return CreateTopicsRequest(list(topics), TIMEOUT_MS, validate_only)


@case("one, again, and several")
def good(stage: Stage) -> None:
    """A topic is created, created again, and named between two new topics; each gets its result."""
    stage.send(create(stage, new_topic(stage.name("a"))))
    stage.send(create(stage, new_topic(stage.name("a"))))
    stage.send(
        create(
            stage,
            new_topic(stage.name("b"), 3),
            new_topic(stage.name("a")),
            new_topic(stage.name("c")),
        )
    )


@case("the broker's defaults", since=4)
def defaults(stage: Stage) -> None:
    stage.send(create(stage, new_topic(stage.name("a"), -1, -1)))


@case("only validated")
def validated(stage: Stage) -> None:
    """A topic is validated, created, and validated again, when it exists."""
    topic = new_topic(stage.name("a"), 2, configs={"retention.ms": "1000"})
    stage.send(create(stage, topic, validate_only=True))
    stage.send(create(stage, topic))
    stage.send(create(stage, topic, validate_only=True))


@case("settings")
def settings(stage: Stage) -> None:
    """A topic is created with valid settings of several types."""
    configs: dict[str, str | None] = {
        "cleanup.policy": "compact,delete",
        "retention.ms": "-1",
        "compression.type": "zstd",
        "max.message.bytes": "100",
    }
    stage.send(create(stage, new_topic(stage.name("a"), configs=configs)))


@case("settings that are wrong")
def wrong_settings(stage: Stage) -> None:
    """Values of a wrong type or out of range, null values and unknown names are refused."""
    for number, (key, value) in enumerate(
        (
            ("retention.ms", "x"),
            ("retention.ms", "-2"),
            ("retention.ms", ""),
            ("retention.ms", None),
            ("no.such.thing", "1"),
            ("", "1"),
            ("cleanup.policy", "shred"),
            ("compression.type", "zip"),
            ("min.cleanable.dirty.ratio", "1.5"),
            ("preallocate", "maybe"),
            ("segment.bytes", "9999999999999"),
            ("leader.replication.throttled.replicas", "a:b"),
        )
    ):
        stage.send(create(stage, new_topic(stage.name(f"t{number}"), configs={key: value})))


@case("the same setting twice")
def setting_twice(stage: Stage) -> None:
    topic = new_topic(stage.name("a"), configs={"retention.ms": "1"})
    topic.configs.append(CreatableTopicConfig("retention.ms", "2"))
    stage.send(create(stage, topic))


@case("names that no topic can have")
def names(stage: Stage) -> None:
    for name in ("", ".", "..", "a b", "n" * 250, "caf\u00e9", "a/b", "a\0b"):
        stage.send(create(stage, new_topic(name)))


@case("names that collide in metrics")
def colliding(stage: Stage) -> None:
    stage.send(create(stage, new_topic(stage.name("a.b"))))
    stage.send(create(stage, new_topic(stage.name("a_b"))))


@case("the coordinators' names, that are there or not")
def internal_names(stage: Stage) -> None:
    for name in ("__consumer_offsets", "__cluster_metadata", "__no_such_internal_topic"):
        stage.send(create(stage, new_topic(name), validate_only=True))


@case("numbers of partitions and replicas")
def numbers(stage: Stage) -> None:
    """Invalid numbers of partitions and replicas are refused; -1 means the broker's default."""
    for number, (partitions, replicas) in enumerate(
        ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 32_767), (-1, 1), (1, -1))
    ):
        stage.send(create(stage, new_topic(stage.name(f"t{number}"), partitions, replicas)))


@case("too many partitions")
def too_many(stage: Stage) -> None:
    stage.send(create(stage, new_topic(stage.name("a"), 1_000_000_000), validate_only=True))
    stage.send(create(stage, new_topic(stage.name("a"), 10_001), validate_only=True))


@case("assignments")
def assigned(stage: Stage) -> None:
    """Replica assignments: valid, with gaps in the partition numbers, empty, repeated and unknown.

    Node 99 does not exist; -1 partitions and -1 replicas mean that the assignment decides both.
    """
    node = stage.broker.node_id
    tried: list[dict[int, list[int]]] = [
        {0: [node], 1: [node]},
        {1: [node]},
        {0: [node], 2: [node]},
        {0: []},
        {0: [node, node]},
        {0: [99]},
        {0: [node, 99]},
        {0: [-1]},
        {-1: [node]},
    ]
    for number, assignments in enumerate(tried):
        stage.send(create(stage, new_topic(stage.name(f"t{number}"), -1, -1, None, assignments)))


@case("assignments beside numbers")
def both(stage: Stage) -> None:
    node = stage.broker.node_id
    stage.send(create(stage, new_topic(stage.name("a"), 1, -1, None, {0: [node]})))
    stage.send(create(stage, new_topic(stage.name("b"), -1, 1, None, {0: [node]})))


@case("the same partition assigned twice")
def assigned_twice(stage: Stage) -> None:
    """A partition that has two assignments is refused."""
    node = stage.broker.node_id
    topic = new_topic(stage.name("a"), -1, -1, None, {0: [node]})
    topic.assignments.append(CreatableReplicaAssignment(0, [node]))
    stage.send(create(stage, topic))


@case("the same topic twice")
def twice(stage: Stage) -> None:
    """A topic that is named twice in a request fails; the other topic is created."""
    stage.send(
        create(
            stage,
            new_topic(stage.name("a")),
            new_topic(stage.name("b")),
            new_topic(stage.name("a")),
        )
    )


@case("no time")
def no_time(stage: Stage) -> None:
    request = create(stage, new_topic(stage.name("a")), validate_only=True)
    request.timeout_ms = 60_000
    stage.send(request)


case.requests({"no topics": lambda stage: create(stage)})
