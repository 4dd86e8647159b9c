"""Fetch by unknown topic ids: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.requests.handlers.node import Node

UNKNOWN_ID = bytes(range(16))


@pytest.mark.parametrize("version", [13, 18])
def test_fetch_response_has_unknown_ids_before_unknown_partitions(node: Node, version: int) -> None:
    known = node.create("t")
    places = [FetchPartition(index, partition_max_bytes=1000) for index in (9, 0)]
    topics = [
        FetchTopic("", known, places),
        FetchTopic("", UNKNOWN_ID, [FetchPartition(0, partition_max_bytes=1000)]),
    ]
    reply = node.call(FetchRequest(topics=topics), version)
    found = [
        (topic.topic_id, [(p.partition_index, p.error_code) for p in topic.partitions])
        for topic in reply.responses
    ]
    assert found == [
        (known, [(0, ErrorCode.NONE)]),
        (UNKNOWN_ID, [(0, ErrorCode.UNKNOWN_TOPIC_ID)]),
        (known, [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


@pytest.mark.parametrize(("version", "topics_told"), [(12, 1), (13, 0), (18, 0)])
def test_unknown_isolation_level_gives_unknown_server_error(
    node: Node, version: int, topics_told: int
) -> None:
    known = node.create("t")
    topics = [FetchTopic("t", known, [FetchPartition(0, partition_max_bytes=1000)])]
    reply = node.call(FetchRequest(isolation_level=7, topics=topics), version)
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(reply.responses) == topics_told


def test_unknown_fetch_session_is_reported_before_the_isolation_level(node: Node) -> None:
    reply = node.call(FetchRequest(isolation_level=7, session_id=77, session_epoch=5), 12)
    assert reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
