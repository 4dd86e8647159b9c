"""Cases of ElectLeaders on a broker that leads every partition, and unknown partitions."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.conformance.access.requests import MISSING
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ELECT_LEADERS)


def access_request(version: int, topic_id: bytes) -> ElectLeadersRequest:
    return ElectLeadersRequest(0, [TopicPartitions(MISSING, [0])], 10_000)


PREFERRED, UNCLEAN = 0, 1


def elect(
    kind: int, *partitions: tuple[str, list[int]], timeout_ms: int = 30_000
) -> ElectLeadersRequest:
    """Build a request; version 0 has only the preferred kind."""
    topics = [TopicPartitions(*place) for place in partitions]
    return ElectLeadersRequest(kind, topics, timeout_ms)


@case("the leader is the preferred one")
def preferred(stage: Stage) -> None:
    a, b = stage.topic("a", partitions=2), stage.topic("b")
    stage.send(elect(PREFERRED, (a.name, [0])))
    stage.send(elect(PREFERRED, (a.name, [1, 0]), (b.name, [0])))


@case("unclean, of partitions with a leader", since=1)
def unclean(stage: Stage) -> None:
    topic = stage.topic(partitions=2)
    stage.send(elect(UNCLEAN, (topic.name, [0, 1])))


@case("partitions that are not there", since=1)
def unknown(stage: Stage) -> None:
    """Elections of missing partitions and topics are refused, of both kinds."""
    topic, nothing = stage.topic(), stage.name("nothing")
    for kind in (PREFERRED, UNCLEAN):
        stage.send(elect(kind, (topic.name, [0, 1, -1]), (nothing, [0])))
        stage.send(elect(kind, ("", [0])))


@case("partitions that are not there, by the first version", until=0)
def unknown_at_first(stage: Stage) -> None:
    stage.send(elect(PREFERRED, (stage.topic().name, [0, 1, -1]), (stage.name("nothing"), [0])))


@case("named twice")
def twice(stage: Stage) -> None:
    topic = stage.topic(partitions=2)
    stage.send(elect(PREFERRED, (topic.name, [0, 0])))
    stage.send(elect(PREFERRED, (topic.name, [0]), (topic.name, [1, 0])))


@case("a topic without partitions")
def no_partitions(stage: Stage) -> None:
    stage.send(elect(PREFERRED, (stage.topic().name, [])))


@case("all partitions")
def everything(stage: Stage) -> None:
    stage.topic(partitions=2)
    for kind in (PREFERRED, UNCLEAN) if stage.version else (PREFERRED,):
        stage.send(ElectLeadersRequest(kind, None))


@case("kinds that do not exist", since=1)
def kinds(stage: Stage) -> None:
    """Elections of a kind that does not exist, of one partition and of all."""
    topic = stage.topic()
    for kind in (2, 127, -1):
        stage.send(elect(kind, (topic.name, [0])))
        stage.send(ElectLeadersRequest(kind, None))


@case("no time")
def no_time(stage: Stage) -> None:
    topic = stage.topic()
    for timeout_ms in (0, -1):
        stage.send(elect(PREFERRED, (topic.name, [0]), timeout_ms=timeout_ms))


case.requests({"no topics": lambda stage: elect(PREFERRED)})
