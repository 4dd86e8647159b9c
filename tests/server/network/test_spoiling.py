"""Handlers that tell errors which a fault rule asks for, before a broker without sockets."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.primitives import Message
from kwire.requests.context import CloseConnection, Context
from kwire.requests.routes import bind
from kwire.server.network.spoiling import fetch_parts, refusing
from kwire.testing.hooks.faults.rules import read_rule
from tests.requests.handlers.conftest import make_node, node
from tests.requests.handlers.node import Node

__all__ = ["make_node", "node"]

ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def topics(node: Node) -> Node:
    """Topics `t`, of two partitions, and `u`."""
    node.create("t", 2)
    node.create("u")
    return node


def spoiled(node: Node, request: Message, version: int, **said: Any) -> Any:  # noqa: ANN401 - by request
    """What a handler gives by a rule with an error, or what it must be waited for by."""
    assert request.API_KEY is not None
    rule = read_rule({"error": ERROR.name, **said})
    binding = bind(request.API_KEY, version)
    context = Context("PLAINTEXT", "127.0.0.1", "1", api_key=request.API_KEY, api_version=version)
    serve = refusing(rule, rule.steps[0], binding, binding.handle)
    return serve(node.broker, request, context)


def produce(acks: int = 1) -> ProduceRequest:
    """One record to each of the three partitions."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                topic,
                partition_data=[
                    PartitionProduceData(index, memoryview(build([Record(0, 1000, None, b"v")])))
                    for index in range(count)
                ],
            )
            for topic, count in (("t", 2), ("u", 1))
        ],
    )


def answers(response: Any) -> dict[tuple[str, int], tuple[int, int]]:  # noqa: ANN401 - of Produce
    """The error and base offset of each partition."""
    return {
        (topic.name, each.index): (each.error_code, each.base_offset)
        for topic in response.responses
        for each in topic.partition_responses
    }


def ends(node: Node) -> list[int]:
    places = (("t", 0), ("t", 1), ("u", 0))
    return [node.partition(*place).log_end_offset for place in places]


def test_refused_partition_is_not_written_but_others_are(topics: Node) -> None:
    told = answers(spoiled(topics, produce(), 9, topic="t", partition=1))
    assert told == {("t", 0): (0, 0), ("t", 1): (ERROR, -1), ("u", 0): (0, 0)}
    assert ends(topics) == [1, 0, 1]


def test_request_that_is_refused_whole_is_not_carried_out(topics: Node) -> None:
    told = answers(spoiled(topics, produce(), 9))
    assert set(told.values()) == {(ERROR, -1)}
    assert len(told) == 3
    assert ends(topics) == [0, 0, 0]


def test_request_about_other_topics_is_served(topics: Node) -> None:
    told = answers(spoiled(topics, produce(), 9, topic="x"))
    assert set(told.values()) == {(0, 0)}
    assert ends(topics) == [1, 1, 1]


def test_error_after_execution_reports_failure_of_executed_parts(topics: Node) -> None:
    told = answers(spoiled(topics, produce(), 9, topic="t", carried_out=True))
    assert told == {("t", 0): (ERROR, -1), ("t", 1): (ERROR, -1), ("u", 0): (0, 0)}
    assert ends(topics) == [1, 1, 1]


def test_refused_produce_with_acks_0_closes_the_connection(topics: Node) -> None:
    with pytest.raises(CloseConnection, match="NOT_LEADER_OR_FOLLOWER to a produce with acks=0"):
        spoiled(topics, produce(acks=0), 9, topic="t")
    assert ends(topics) == [0, 0, 0]
    assert spoiled(topics, produce(acks=0), 9, carried_out=True) is None
    assert ends(topics) == [1, 1, 1]


async def test_pending_response_gets_the_error_when_it_arrives(topics: Node) -> None:
    topics.lag("u")
    pending = spoiled(topics, produce(acks=-1), 9, topic="t", partition=0)
    assert isinstance(pending, Awaitable)
    topics.partition("u").advance_high_watermark(1, 0)
    told = answers(await pending)
    assert told == {("t", 0): (ERROR, -1), ("t", 1): (0, 0), ("u", 0): (0, 0)}


def test_request_without_topics_is_answered_with_the_error(topics: Node) -> None:
    told = spoiled(topics, HeartbeatRequest("g"), 4, error="NOT_COORDINATOR")
    assert told.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [0, 1, 9])
def test_metadata_of_a_refused_topic_still_lists_brokers(topics: Node, version: int) -> None:
    """Except of version 0, where no topics would mean all of them."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    told = spoiled(topics, request, version, error="UNKNOWN_TOPIC_OR_PARTITION")
    assert [(topic.name, topic.error_code) for topic in told.topics] == [
        ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ]
    assert len(told.brokers) == (0 if version == 0 else 1)


def test_metadata_of_one_refused_topic_describes_the_other(topics: Node) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in "tu"])
    told = spoiled(topics, request, 9, topic="t", error="LEADER_NOT_AVAILABLE")
    errors = {topic.name: topic.error_code for topic in told.topics}
    assert errors == {"t": ErrorCode.LEADER_NOT_AVAILABLE, "u": ErrorCode.NONE}
    assert len(told.brokers) == 1


def test_metadata_of_all_topics_has_the_error_for_picked_topics(topics: Node) -> None:
    told = spoiled(
        topics, MetadataRequest(topics=None), 9, topic="t", error="INVALID_TOPIC_EXCEPTION"
    )
    errors = {topic.name: topic.error_code for topic in told.topics}
    assert errors == {"t": ErrorCode.INVALID_TOPIC_EXCEPTION, "u": ErrorCode.NONE}


def fetch(session: int = 0, epoch: int = -1) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1 << 20,
        max_bytes=1 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                "t",
                partitions=[
                    FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 20)
                    for index in range(2)
                ],
            )
        ] if epoch < 1 else [],
    )  # fmt: skip


def fetched(response: Any) -> dict[int, tuple[int, bool]]:  # noqa: ANN401 - of Fetch
    """The error of each partition, and whether it has records."""
    return {
        each.partition_index: (each.error_code, bool(each.records))
        for topic in response.responses
        for each in topic.partitions
    }


def test_fetch_of_a_refused_partition_is_answered_at_once_with_the_others(topics: Node) -> None:
    for index in range(2):
        topics.append("t", index)
    told = spoiled(topics, fetch(), 11, topic="t", partition=1)
    assert fetched(told) == {0: (0, True), 1: (ERROR, False)}


def test_fetch_in_a_session_is_refused_by_its_session_partitions(topics: Node) -> None:
    topics.append("t", 0)
    opened = topics.call(replace(fetch(epoch=0), max_wait_ms=0), 11)
    request = fetch(opened.session_id, 1)
    assert [*fetch_parts(topics.broker, request)] == [("t", 0), ("t", 1)]
    told = spoiled(topics, request, 11, topic="t", partition=1)
    assert fetched(told)[1] == (ERROR, False)
    wrong = spoiled(topics, fetch(opened.session_id, 7), 11, topic="t")
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert wrong.responses == []


def test_only_incremental_fetches_have_session_partitions(topics: Node) -> None:
    session = topics.call(replace(fetch(epoch=0), max_wait_ms=0), 11).session_id
    for epoch in (0, -1):
        assert [*fetch_parts(topics.broker, fetch(session, epoch))] == []
    assert [*fetch_parts(topics.broker, fetch(session + 1, 1))] == []
    assert [*fetch_parts(topics.broker, HeartbeatRequest("g"))] == []


async def test_delete_topics_by_name_reports_the_error_after_deletion(
    topics: Node,
) -> None:
    """DeleteTopics up to v5 has no entries that could be left out: the error is a lie there."""
    request = DeleteTopicsRequest(topic_names=["missing"], timeout_ms=1000)
    told = spoiled(topics, request, 3, error="NOT_CONTROLLER")
    if isinstance(told, Awaitable):
        told = await told
    assert [(each.name, each.error_code) for each in told.responses] == [
        ("missing", ErrorCode.NOT_CONTROLLER)
    ]
    assert request.API_KEY == ApiKey.DELETE_TOPICS
