"""DeleteRecords: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import pytest

from kwire.cluster.metadata.topic_names import TRANSACTION_STATE_TOPIC
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.requests.handlers.node import Node


def delete(
    node: Node, *topics: tuple[str, list[tuple[int, int]]], version: int = 2
) -> list[tuple[str, list[tuple[int, int, int]]]]:
    """(topic, [(partition, low watermark, error)])."""
    asked = [
        DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(*each) for each in offsets]
        )
        for name, offsets in topics
    ]
    reply = node.call(DeleteRecordsRequest(topics=asked, timeout_ms=0), version)
    return [
        (
            topic.name,
            [(each.partition_index, each.low_watermark, each.error_code) for each in told],
        )
        for topic in reply.topics
        if (told := topic.partitions) is not None
    ]


@pytest.fixture
def t(node: Node) -> Node:
    """Topic `t`: ten records in partition 0, none in partition 1."""
    node.create("t", 2)
    node.append("t")
    node.append("t")
    return node


@pytest.mark.parametrize("version", [0, 1, 2])
def test_delete_records_moves_the_log_start_forward_only(t: Node, version: int) -> None:
    for offset, low_watermark in ((3, 3), (3, 3), (1, 3), (0, 3), (-1, 10), (-1, 10), (10, 10)):
        told = delete(t, ("t", [(0, offset)]), version=version)
        assert told == [("t", [(0, low_watermark, 0)])]
        assert t.partition("t").log_start_offset == low_watermark


@pytest.mark.parametrize("offset", [11, -2])
def test_delete_records_beyond_the_high_watermark_is_refused(t: Node, offset: int) -> None:
    assert delete(t, ("t", [(0, offset)])) == [("t", [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)])]
    assert t.partition("t").log_start_offset == 0


def test_an_empty_partition(t: Node) -> None:
    assert delete(t, ("t", [(1, -1)])) == delete(t, ("t", [(1, 0)])) == [("t", [(1, 0, 0)])]
    assert delete(t, ("t", [(1, 1)])) == [("t", [(1, -1, ErrorCode.OFFSET_OUT_OF_RANGE)])]


def test_delete_records_of_unknown_partitions_is_refused(t: Node) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    told = delete(t, ("nope", [(0, 0)]), ("t", [(9, 0), (0, 2)]), ("", [(0, 0)]))
    assert told == [
        ("nope", [(0, -1, unknown)]),
        ("t", [(9, -1, unknown), (0, 2, 0)]),
        ("", [(0, -1, unknown)]),
    ]


@pytest.mark.parametrize(
    ("cleanup_policy", "offset", "answer"),
    [
        ("compact", 1, (0, -1, ErrorCode.POLICY_VIOLATION)),
        ("compact", 100, (0, -1, ErrorCode.POLICY_VIOLATION)),
        ("compact,delete", 1, (0, 1, 0)),
        ("", 1, (0, 1, 0)),
    ],
)
def test_delete_records_of_a_compacted_topic_is_refused(
    node: Node, cleanup_policy: str, offset: int, answer: tuple[int, int, int]
) -> None:
    node.create("t", cleanup_policy=cleanup_policy)
    node.append("t", key=b"k")
    assert delete(node, ("t", [(0, offset)])) == [("t", [answer])]


async def test_delete_records_of_internal_topics_is_refused(node: Node) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(node, (TRANSACTION_STATE_TOPIC, [(0, 0)])) == [
        (TRANSACTION_STATE_TOPIC, [(0, -1, unknown)])
    ]
    node.create(TRANSACTION_STATE_TOPIC)
    assert delete(node, (TRANSACTION_STATE_TOPIC, [(0, 0), (99, 0)])) == [
        (TRANSACTION_STATE_TOPIC, [(0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION), (99, -1, unknown)])
    ]


def test_delete_records_uses_the_last_entry_of_a_repeated_partition(t: Node) -> None:
    assert delete(t, ("t", [(0, 2), (0, 4)])) == [("t", [(0, 4, 0)])]
    assert delete(t, ("t", [(0, 5)]), ("u", []), ("t", [(1, 0)])) == [("t", [(0, 5, 0), (1, 0, 0)])]


def test_partition_led_by_another_broker_gives_not_leader_or_follower(t: Node) -> None:
    t.change_leader("t", 0, leader=2, leader_epoch=1)
    assert delete(t, ("t", [(0, 1)])) == [("t", [(0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)])]
