"""DescribeProducers: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import pytest

from kwire.codecs.batches import ControlType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from tests.requests.handlers.node import Node


def describe(node: Node, topic: str, *indexes: int) -> list[PartitionResponse]:
    asked = [TopicRequest(name=topic, partition_indexes=list(indexes))]
    reply = node.call(DescribeProducersRequest(topics=asked), 0)
    [told] = reply.topics
    assert told.name == topic
    partitions: list[PartitionResponse] = told.partitions
    return partitions


def test_describe_producers_shows_producers_and_open_transactions(node: Node) -> None:
    node.create("t")
    node.append("t", timestamps=(777,) * 3, producer=(5, 3, 10))
    node.append("t", timestamps=(2000,) * 3, producer=(7, 0, 0), transactional=True)
    assert describe(node, "t", 0)[0].active_producers == [
        ProducerState(5, 3, 12, 777, -1, -1),
        ProducerState(7, 0, 2, 2000, -1, 3),
    ]
    node.end_transaction("t", 0, ControlType.COMMIT, 7, now_ms=5000)
    assert describe(node, "t", 0)[0].active_producers[1] == ProducerState(7, 0, 2, 5000, 0, -1)


def test_describe_producers_of_a_partition_without_producers_is_empty(node: Node) -> None:
    node.create("t")
    node.append("t")
    assert describe(node, "t", 0) == [PartitionResponse(0)]


def test_response_has_partitions_in_request_order_with_repetitions(node: Node) -> None:
    node.create("t", 2)
    told = describe(node, "t", 1, 7, 0, 1)
    assert [(each.partition_index, each.error_code, each.error_message) for each in told] == [
        (1, 0, None),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (0, 0, None),
        (1, 0, None),
    ]


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (
            "nope",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
        (
            "",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        (
            "a b",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        ),
        (
            "x" * 250,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed "
            "length 249",
        ),
    ],
)
def test_describe_producers_of_an_unknown_topic_has_a_message(
    node: Node, topic: str, error: ErrorCode, message: str
) -> None:
    assert describe(node, topic, 0) == [PartitionResponse(0, error, message)]
