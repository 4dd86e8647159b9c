"""Cases of OffsetForLeaderEpoch: each epoch, and each check."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import filled_topic, unknown_topic
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.OFFSET_FOR_LEADER_EPOCH)


def access_request(version: int, topic_id: bytes) -> OffsetForLeaderEpochRequest:
    partition = OffsetForLeaderPartition(INDEX, -1, 0)
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(TOPIC, [partition])])


def ask(
    topic: CaseTopic, epoch: int = 0, *, partition: int = 0, current: int = -1, replica: int = -1
) -> OffsetForLeaderEpochRequest:
    """Request the end of one epoch of one partition."""
    place = OffsetForLeaderPartition(partition, current, epoch)
    return OffsetForLeaderEpochRequest(replica, [OffsetForLeaderTopic(topic.name, [place])])


@case("epochs")
def epochs(stage: Stage) -> None:
    for partition in (0, 1):
        for epoch in (0, 1, -1, -5, 100):
            stage.send(ask(filled_topic(stage), epoch, partition=partition))


@case("the current epoch")
def current(stage: Stage) -> None:
    for epoch in (-1, 0, 1, -5):
        stage.send(ask(filled_topic(stage), current=epoch))


@case("replicas", since=3)
def replicas(stage: Stage) -> None:
    for replica in (-1, -2, 5):
        stage.send(ask(filled_topic(stage), replica=replica))


@case("several, some of them unknown, some twice")
def several(stage: Stage) -> None:
    """One request has an epoch that exists, a missing partition, and a missing topic."""
    request = ask(filled_topic(stage))
    request.topics[0].partitions += ask(filled_topic(stage), 1, partition=9).topics[0].partitions
    request.topics[0].partitions += ask(filled_topic(stage), 0).topics[0].partitions
    request.topics += ask(unknown_topic(stage)).topics
    stage.send(request)


case.requests(
    {
        "unknown topic": lambda stage: ask(unknown_topic(stage)),
        "unknown partition": lambda stage: ask(filled_topic(stage), partition=9),
        "negative partition": lambda stage: ask(filled_topic(stage), partition=-1),
        "no topics": lambda stage: OffsetForLeaderEpochRequest(-1),
    }
)
