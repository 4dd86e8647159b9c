"""OffsetCommit for unknown topics: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.requests.handlers.node import Node


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (10, ErrorCode.UNKNOWN_TOPIC_ID)],
)
def test_offset_commit_answers_a_repeated_unknown_topic_once(
    node: Node, version: int, error: ErrorCode
) -> None:
    topics = [
        OffsetCommitRequestTopic("u", bytes(range(16)), [OffsetCommitRequestPartition(index, 5)])
        for index in (0, 1)
    ]
    reply = node.call(OffsetCommitRequest("g", topics=topics), version)
    (topic,) = reply.topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, error), (1, error)]
