"""What a heartbeat of a consumer group is refused for, as Apache Kafka 4.3.1 says it."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kwire.groups.consumer.validation import refused

ASSIGNORS = ["uniform", "range"]
JOINING: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "rebalance_timeout_ms": 1_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
FIRST = "must be non-null when (re-)joining."


def refusal(version: int = 1, **fields: object) -> tuple[ErrorCode, str | None] | None:
    request = ConsumerGroupHeartbeatRequest(**{**JOINING, **fields})
    found = refused(request, version, ASSIGNORS)
    return None if found is None else (found.error, found.message)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        (
            {"rebalance_timeout_ms": -1},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topic_partitions": [TopicPartitions(bytes(16), [0])]},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            {"subscribed_topic_names": None},
            f"Either SubscribedTopicNames or SubscribedTopicRegex {FIRST}",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_requests(fields: dict[str, Any], sentence: str) -> None:
    assert refusal(**fields) == (ErrorCode.INVALID_REQUEST, sentence)


def test_who_is_let_on() -> None:
    assert refusal() is None
    assert refusal(subscribed_topic_names=None, subscribed_topic_regex="t.*") is None
    assert refusal(server_assignor="range", instance_id="i", rack_id="r") is None
    assert refusal(member_epoch=-1, rebalance_timeout_ms=-1, topic_partitions=None) is None
    assert refusal(member_epoch=-2, instance_id="i") is None
    assert refusal(member_epoch=3, rebalance_timeout_ms=-1, subscribed_topic_names=None) is None


def test_the_coordinator_names_members_before_version_1() -> None:
    assert refusal(0, member_id="") is None
    assert refusal(0, member_id="", member_epoch=1) == (
        ErrorCode.INVALID_REQUEST,
        "MemberId can't be empty.",
    )


def test_an_assignor_that_there_is_not() -> None:
    assert refusal(server_assignor="best") == (
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor best is not supported. Supported assignors: uniform, range.",
    )
