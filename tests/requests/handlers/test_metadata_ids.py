"""Metadata by topic id: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.requests.handlers.node import Node

UNKNOWN_ID = bytes(range(16))
NOT_TOLD = -(2**31)


def test_metadata_of_an_unknown_id_has_no_authorized_operations(node: Node) -> None:
    known = node.create("t")
    asked = [MetadataRequestTopic(topic_id, None) for topic_id in (known, UNKNOWN_ID)]
    request = MetadataRequest(asked, include_topic_authorized_operations=True)
    topics = {topic.topic_id: topic for topic in node.call(request, 13).topics}
    assert topics[UNKNOWN_ID].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert topics[UNKNOWN_ID].topic_authorized_operations == NOT_TOLD
    assert topics[known].topic_authorized_operations > 0
