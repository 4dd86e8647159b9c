"""Scenarios of topics: creating, describing, growing and deleting them."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.codecs.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kwire.codecs.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.conformance.behaviour.asking import (
    LATEST,
    add_partitions,
    create_topic,
    delete_topic,
    list_offsets,
    offset_fetch,
)
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.alter_partition_reassignments import reassign
from kwire.conformance.wire.cases.build import UNKNOWN_ID, batch, commit, fetch, fill, produce
from kwire.conformance.wire.cases.elect_leaders import elect
from kwire.testing.comparing.normal import Tree

scenario = Scenarios("topics")


def about(name: str, *, create: bool = False) -> MetadataRequest:
    """A request for the metadata of one topic."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=create
    )


def learn(stage: ScenarioStage, name: str) -> CaseTopic:
    """The id and partitions of a topic that a request of the scenario created."""
    stage.delete_later(name)
    stage.await_controller()
    metadata = stage.ask(about(name)).topics[0]
    stage.topics[metadata.topic_id] = name
    return CaseTopic(name, metadata.topic_id, len(metadata.partitions))


@scenario()
def validate_only(stage: ScenarioStage) -> None:
    """validate_only creates nothing, but still reports TOPIC_ALREADY_EXISTS."""
    name = stage.name("t")
    stage.send(create_topic(name, 2, validate=True))
    stage.send(about(name))
    stage.send(create_topic(name, 2))
    learn(stage, name)
    stage.send(create_topic(name, 2, validate=True))
    stage.send(create_topic(name, 2))
    stage.send(create_topic(name, 0, validate=True))
    stage.send(create_topic(stage.name("u"), 0, validate=True))
    stage.send(create_topic(stage.name("u"), 1, 3, validate=True))
    stage.send(create_topic(stage.name("u"), validate=True, retention_ms="x"))
    stage.send(about(stage.name("u")))


@scenario()
def create_tells_the_configs(stage: ScenarioStage) -> None:
    """CreateTopics returns partitions, replicas and all configs since version 5."""
    for version in (4, 5, 7):
        name = stage.name(f"v{version}")
        stage.send(create_topic(name, -1, -1, retention_ms="1000"), version)
        learn(stage, name)
        stage.send(about(name))


@scenario()
def partitions_are_added(stage: ScenarioStage) -> None:
    """CreatePartitions has a result for each topic; new partitions are served."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a"))
    node = stage.broker.node_id
    for request in (
        add_partitions(topic.name, 3, validate=True),
        add_partitions(topic.name, 1),
        add_partitions(topic.name, 0),
        add_partitions(topic.name, -1),
        add_partitions(topic.name, 3, [node]),
        add_partitions(topic.name, 3, [node, 99]),
        add_partitions(topic.name, 3, [node, node]),
        add_partitions(topic.name, 3),
        add_partitions(topic.name, 2),
        add_partitions(stage.name("none"), 2),
    ):
        stage.send(request)
    stage.await_controller()
    stage.send(about(topic.name))
    stage.send(produce(topic, batch(stage, b"b"), partition=2))
    stage.send(fetch(topic, partition=2))
    stage.send(fetch(topic))


@scenario()
def deleted_and_made_again(stage: ScenarioStage) -> None:
    """A topic that is created again is empty and has another id; the old id is unknown."""
    topic = stage.topic(partitions=2)
    fill(stage, topic, batch(stage, b"a", b"b"))
    stage.send(delete_topic(topic.name))
    stage.send(delete_topic(topic.name))
    stage.await_controller()
    stage.send(about(topic.name))
    stage.send(MetadataRequest(topics=[MetadataRequestTopic(topic.id, None)]))
    stage.send(produce(topic, batch(stage, b"c")))
    stage.send(produce(topic, batch(stage, b"c")), 12)
    stage.send(fetch(topic))
    stage.send(fetch(topic), 12)
    stage.send(list_offsets(topic, LATEST))
    stage.send(create_topic(topic.name))
    again = learn(stage, topic.name)
    stage.note("another id", again.id != topic.id)
    stage.send(fetch(topic))
    stage.send(fetch(again))
    stage.send(fetch(again, partition=1))
    stage.send(produce(again, batch(stage, b"d")))
    stage.send(list_offsets(again, LATEST))


@scenario()
def deleted_by_id(stage: ScenarioStage) -> None:
    """DeleteTopics by id, by an unknown id, and by a name and an id at once."""
    topic = stage.topic()
    both = delete_topic(topic.name)
    both.topics[0].topic_id = topic.id
    stage.send(both)
    by_id = delete_topic("")
    by_id.topics[0].name, by_id.topics[0].topic_id = None, UNKNOWN_ID
    stage.send(by_id)
    by_id.topics[0].topic_id = topic.id
    stage.send(by_id)
    stage.await_controller()
    stage.send(by_id)
    stage.send(about(topic.name))


@scenario()
def offsets_of_a_deleted_topic(stage: ScenarioStage) -> None:
    """A group's committed offsets of a topic are deleted with the topic."""
    topic, other = stage.topic("gone"), stage.topic("stays")
    group = stage.name("g")
    stage.send(commit(group, topic, 3))
    stage.send(commit(group, other, 4))
    stage.note("before", _committed(stage, group))
    stage.send(delete_topic(topic.name))
    stage.await_controller()
    stage.note("after", _committed(stage, group))
    again = stage.topic("gone")
    stage.send(offset_fetch(group, again, 0), 9)
    stage.send(offset_fetch(group, topic, 0), 10)
    stage.send(offset_fetch(group, again, 0), 10)


def _committed(stage: ScenarioStage, group: str) -> list[Tree]:
    """All committed offsets of a group, sorted; Apache Kafka takes the order from a hash map."""
    topics = stage.ask(offset_fetch(group, None), 9).groups[0].topics
    lines = sorted(f"{t.name[-4:]} {p.committed_offset}" for t in topics for p in t.partitions)
    return list(lines)


@scenario()
def made_by_metadata(stage: ScenarioStage) -> None:
    """Metadata creates a missing topic; its first response has no leader."""
    name = stage.name("auto")
    stage.send(about(name))
    first = stage.ask(about(name, create=True)).topics[0]
    kinds = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    stage.note("told at first", first.error_code in kinds)
    stage.delete_later(name)
    stage.until("there", lambda: not stage.ask(about(name)).topics[0].error_code)
    topic = learn(stage, name)
    stage.send(about(name))
    stage.send(produce(topic, batch(stage, b"a")))
    for bad in ("", ".", "..", "a b", "x" * 250, "a/b", "\u00e9"):
        stage.send(about(bad, create=True))
    stage.send(about(f"{stage.name('auto')}", create=True), 1)


@scenario()
def log_dirs(stage: ScenarioStage) -> None:
    """DescribeLogDirs returns the exact size of each partition in bytes."""
    topic = stage.topic(partitions=2)
    fill(stage, topic, batch(stage, b"a" * 100), batch(stage, b"b"))
    for indexes in ([0, 1], [1], [7], []):
        stage.send(DescribeLogDirsRequest([DescribableLogDirTopic(topic.name, indexes)]))
    stage.send(DescribeLogDirsRequest([DescribableLogDirTopic(stage.name("none"), [0])]))
    stage.send(DescribeLogDirsRequest([]))


@scenario()
def described_in_pages(stage: ScenarioStage) -> None:
    """DescribeTopicPartitions stops at its limit and continues from its cursor."""
    first, second = stage.topic("a", partitions=3), stage.topic("b", partitions=2)
    requests = [TopicRequest(first.name), TopicRequest(second.name), TopicRequest(stage.name("c"))]
    for limit in (1, 2, 3, 4, 5, 2000, 0, -1):
        cursor = None
        for _ in range(6):
            request = DescribeTopicPartitionsRequest(requests, limit, cursor)
            reply = stage.send(request)
            cursor = reply.next_cursor if reply else None
            if cursor is None:
                break


@scenario()
def names_that_clash(stage: ScenarioStage) -> None:
    """A name that differs from an existing one only in `.` and `_` is refused."""
    dotted = stage.name("a.b")
    stage.send(create_topic(dotted))
    stage.delete_later(dotted)
    stage.send(create_topic(dotted.replace(".", "_")))
    for bad in ("", ".", "..", "a b", "x" * 250):
        stage.send(create_topic(bad))


@scenario()
def twice_in_one_request(stage: ScenarioStage) -> None:
    """A topic that is named twice in one request is refused; the others are created."""
    twice, once = create_topic(stage.name("twice")), create_topic(stage.name("once"))
    request = create_topic(stage.name("twice"))
    request.topics += once.topics + twice.topics
    stage.delete_later(stage.name("once"))
    reply = stage.ask(request)
    results = sorted((t.name == stage.name("once"), t.error_code) for t in reply.topics)
    stage.note("results", [list(map(int, pair)) for pair in results])
    deletion = delete_topic(stage.name("once"))
    deletion.topics += delete_topic(stage.name("once")).topics
    stage.await_controller()
    stage.send(deletion)


@scenario()
def leaders_and_replicas_on_one_broker(stage: ScenarioStage) -> None:
    """On one broker nothing needs an election or a move; new partitions exist, deleted ones do
    not."""
    topic, node = stage.topic(), stage.broker.node_id
    requests = elect(0, (topic.name, [0, 1])), reassign((topic.name, [(0, [node]), (1, [99])]))

    def look() -> None:
        for request in requests:
            stage.send(request)
        stage.send(ListPartitionReassignmentsRequest())
        stage.await_controller()
        stage.send(about(topic.name))

    look()
    stage.send(add_partitions(topic.name, 2))
    stage.await_controller()
    look()
    stage.send(delete_topic(topic.name))
    stage.await_controller()
    look()
