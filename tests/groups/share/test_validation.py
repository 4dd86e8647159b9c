"""What a heartbeat of a share group is refused for, as Apache Kafka 4.3.1 says it."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.groups.share.validation import refused

JOINING: dict[str, Any] = {"group_id": "g", "member_id": "m" * 36, "subscribed_topic_names": ["t"]}


def refusal(**fields: object) -> tuple[ErrorCode, str | None] | None:
    found = refused(ShareGroupHeartbeatRequest(**{**JOINING, **fields}))
    return None if found is None else (found.error, found.message)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"member_id": ""}, None),
        ({"member_id": "m" * 37}, None),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_requests(fields: dict[str, Any], sentence: str | None) -> None:
    assert refusal(**fields) == (ErrorCode.INVALID_REQUEST, sentence)


def test_who_is_let_on() -> None:
    assert refusal() is None
    assert refusal(rack_id="r") is None
    assert refusal(member_epoch=3, subscribed_topic_names=None) is None
    assert refusal(member_epoch=-1, subscribed_topic_names=None) is None
