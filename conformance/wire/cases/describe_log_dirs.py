"""Cases of DescribeLogDirs: all, some and no partitions."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import filled_topic
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_LOG_DIRS)


def access_request(version: int, topic_id: bytes) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest([])


def ask(name: str, *partitions: int) -> DescribeLogDirsRequest:
    """Request some partitions of one topic."""
    return DescribeLogDirsRequest([DescribableLogDirTopic(name, list(partitions))])


@case("all")
def everything(stage: Stage) -> None:
    stage.topic(partitions=2)
    stage.send(DescribeLogDirsRequest(None))


case.requests(
    {
        "some partitions": lambda stage: ask(filled_topic(stage).name, 0, 1, 9, -1),
        "the same partition twice": lambda stage: ask(filled_topic(stage).name, 0, 0),
        "no partitions": lambda stage: ask(filled_topic(stage).name),
        "unknown topic": lambda stage: ask(stage.name("nothing"), 0),
        "the empty name": lambda stage: ask("", 0),
        "no topics": lambda stage: DescribeLogDirsRequest([]),
    }
)
