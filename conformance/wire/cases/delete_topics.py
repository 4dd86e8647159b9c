"""Cases of DeleteTopics: by name and by id."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.primitives import ZERO_UUID
from kwire.conformance.access.requests import MISSING
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import UNKNOWN_ID
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DELETE_TOPICS)


def access_request(version: int, topic_id: bytes) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[MISSING], timeout_ms=10_000)
    return DeleteTopicsRequest([DeleteTopicState(MISSING)], timeout_ms=10_000)


TIMEOUT_MS = 30_000


def delete(stage: Stage, *names: str) -> DeleteTopicsRequest:
    """Delete topics by name."""
    if stage.version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)
    return DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=TIMEOUT_MS)


@case("one, again, and it is gone")
def good(stage: Stage) -> None:
    """A topic is deleted twice; the second time it is unknown."""
    topic = stage.topic()
    for _ in range(2):
        stage.send(delete(stage, topic.name))
    stage.await_cluster_changes()
    stage.send(MetadataRequest([MetadataRequestTopic(name=topic.name)], False), 9)


@case("several, one of them unknown, one twice")
def several(stage: Stage) -> None:
    a, b = stage.topic("a"), stage.topic("b")
    stage.send(delete(stage, a.name, stage.name("nothing"), b.name))
    stage.send(delete(stage, stage.topic("c").name, stage.name("c")))


@case("names that no topic can have")
def invalid(stage: Stage) -> None:
    for name in ("", "a b", "n" * 300):
        stage.send(delete(stage, name))


@case("by id", since=6)
def by_id(stage: Stage) -> None:
    topic = stage.topic()
    for topic_id in (topic.id, topic.id, UNKNOWN_ID, ZERO_UUID):
        stage.send(DeleteTopicsRequest([DeleteTopicState(None, topic_id)], timeout_ms=TIMEOUT_MS))


@case("by name and id at once", since=6)
def by_both(stage: Stage) -> None:
    """A topic is named by both name and id, then in two entries, one of each."""
    topic = stage.topic()
    states = [DeleteTopicState(topic.name, topic.id)]
    stage.send(DeleteTopicsRequest(states, timeout_ms=TIMEOUT_MS))
    states = [DeleteTopicState(topic.name), DeleteTopicState(None, topic.id)]
    stage.send(DeleteTopicsRequest(states, timeout_ms=TIMEOUT_MS))


case.requests({"no topics": lambda stage: delete(stage)})
