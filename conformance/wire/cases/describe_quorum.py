"""Cases of DescribeQuorum: the quorum of controllers, and partitions that it does not have."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_QUORUM)

METADATA = "__cluster_metadata"


def access_request(version: int, topic_id: bytes) -> DescribeQuorumRequest:
    return _of((TOPIC, [INDEX]))


def _of(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    """Return a request for partitions, given as topics with indexes."""
    return DescribeQuorumRequest(
        [
            RequestTopicData(name, [RequestPartitionData(index) for index in indexes])
            for name, indexes in topics
        ]
    )


case.requests(
    {
        "the metadata": lambda stage: _of((METADATA, [0])),
        "another topic": lambda stage: _of((stage.name(), [0, 1])),
        "a topic without a name": lambda stage: _of(("", [0])),
        "another partition": lambda stage: _of((METADATA, [1])),
        "a negative partition": lambda stage: _of((METADATA, [-1])),
        "no partition": lambda stage: _of((METADATA, [])),
        "the metadata and another topic": lambda stage: _of((METADATA, [0]), ("other", [0])),
        "another topic and the metadata": lambda stage: _of(("other", [0]), (METADATA, [0])),
        "the metadata and another partition": lambda stage: _of((METADATA, [0, 1])),
        "the metadata twice": lambda stage: _of((METADATA, [0]), (METADATA, [0])),
        "the partition twice": lambda stage: _of((METADATA, [0, 0])),
    }
)


@case("offsets do not go back")
def monotone(stage: Stage) -> None:
    """A topic is created between two descriptions; the second has the higher offset."""
    before = stage.send(_of((METADATA, [0])))
    stage.topic()
    after = stage.send(_of((METADATA, [0])))
    first, second = (each.topics[0].partitions[0] for each in (before, after))
    assert second.leader_epoch >= first.leader_epoch
    assert second.high_watermark > first.high_watermark
