"""OffsetForLeaderEpoch: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.requests.handlers.node import Node

UNKNOWN = (0, -1, -1)


def ask(
    node: Node, leader_epoch: int, current: int = -1, index: int = 0, version: int = 4
) -> tuple[int, int, int]:
    """(error, leader epoch, end offset)."""
    asked = OffsetForLeaderPartition(index, current, leader_epoch)
    topics = [OffsetForLeaderTopic(topic="t", partitions=[asked])]
    reply = node.call(OffsetForLeaderEpochRequest(topics=topics), version)
    [answer] = reply.topics[0].partitions
    assert answer.partition == index
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("leader_epoch", "empty", "filled"),
    [
        (-5, (0, -5, 0), (0, -5, 0)),
        (-1, UNKNOWN, UNKNOWN),
        (0, (0, 0, 0), (0, 0, 5)),
        (1, UNKNOWN, UNKNOWN),
        (7, UNKNOWN, UNKNOWN),
    ],
)
def test_first_epoch_ends_at_the_log_end_offset(
    node: Node,
    version: int,
    leader_epoch: int,
    empty: tuple[int, int, int],
    filled: tuple[int, int, int],
) -> None:
    node.create("t")
    assert ask(node, leader_epoch, version=version) == empty
    node.append("t")
    assert ask(node, leader_epoch, version=version) == filled


def test_each_epoch_ends_at_the_start_of_the_next(node: Node) -> None:
    node.create("t")
    node.append("t")
    node.change_leader("t", 0, leader=1, leader_epoch=3)
    node.append("t")
    node.change_leader("t", 0, leader=1, leader_epoch=4)
    assert [ask(node, epoch) for epoch in range(6)] == [
        (0, 0, 5),
        (0, 0, 5),
        (0, 0, 5),
        (0, 3, 10),
        (0, 4, 10),
        UNKNOWN,
    ]


def test_wrong_current_leader_epoch_is_refused(node: Node) -> None:
    node.create("t")
    node.change_leader("t", 0, leader=1, leader_epoch=2)
    node.append("t")
    fenced = (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert ask(node, 2, current=-2) == fenced
    assert ask(node, 2, current=1) == fenced
    assert ask(node, 2, current=2) == (0, 2, 5)
    assert ask(node, 2, current=3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


def test_response_has_partitions_in_request_order_with_repetitions(node: Node) -> None:
    node.create("t", 2)
    node.append("t", 1)

    def topic(name: str, *indexes: int) -> OffsetForLeaderTopic:
        asked = [OffsetForLeaderPartition(index, -1, 0) for index in indexes]
        return OffsetForLeaderTopic(topic=name, partitions=asked)

    topics = [topic("nope", 1), topic("t", 1, 9, 0, 1), topic("u"), topic("t", 0)]
    reply = node.call(OffsetForLeaderEpochRequest(topics=topics), 4)
    assert [
        (topic.topic, [(each.partition, each.error_code, each.end_offset) for each in told])
        for topic in reply.topics
        if (told := topic.partitions) is not None
    ] == [
        ("nope", [(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]),
        ("t", [(1, 0, 5), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), (0, 0, 0), (1, 0, 5)]),
        ("u", []),
        ("t", [(0, 0, 0)]),
    ]


def test_partition_led_by_another_broker_gives_not_leader_or_follower(node: Node) -> None:
    node.create("t")
    node.change_leader("t", 0, leader=2, leader_epoch=1)
    assert ask(node, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
