"""Cases of Metadata: all topics, some, none, by id, and topics that it creates."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.primitives import ZERO_UUID
from kwire.conformance.access.requests import MISSING, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import UNKNOWN_ID
from kwire.conformance.wire.stage import NotApplicable, Stage

case = Cases(ApiKey.METADATA)


def access_request(version: int, topic_id: bytes) -> MetadataRequest:
    """Return a request that never creates a topic where the version can say so.

    Before version 4 a missing topic would be created, so only the existing topic is named.
    """
    names = (TOPIC,) if version < 4 else (TOPIC, MISSING)
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    request.allow_auto_topic_creation = version < 4
    if version >= 8:
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = version <= 10
    return request


def ask(stage: Stage, *names: str, create: bool = False) -> MetadataRequest:
    """Request topics by name; they are created only where the version cannot forbid it."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics, allow_auto_topic_creation=create or stage.version < 4)


@case("topics by name")
def by_name(stage: Stage) -> None:
    """One topic, two topics, and one topic twice are described by name."""
    topic = stage.topic(partitions=3)
    stage.send(ask(stage, topic.name))
    stage.send(ask(stage, topic.name, stage.topic("u").name))
    stage.send(ask(stage, topic.name, topic.name))


@case("all topics")
def everything(stage: Stage) -> None:
    stage.topic()
    stage.send(MetadataRequest(None if stage.version else []))


@case("no topics", since=1)
def nothing(stage: Stage) -> None:
    stage.send(MetadataRequest([]))


@case("null topics in the version that has none", until=0)
def null_topics(stage: Stage) -> None:
    stage.send_bytes(b"\xff\xff\xff\xff")


@case("a topic that is not there", since=4)
def unknown(stage: Stage) -> None:
    stage.send(ask(stage, stage.name("nothing")))


@case("a topic made by asking for it")
def created(stage: Stage) -> None:
    name = stage.name("new")
    stage.delete_later(name)
    stage.send(ask(stage, name, create=True))


@case("names that no topic can have")
def invalid(stage: Stage) -> None:
    for name in ("", "a b", "..", ".", "n" * 250, "caf\u00e9", "a/b"):
        stage.send(ask(stage, name, create=True))


@case("the coordinators' topics")
def internal(stage: Stage) -> None:
    stage.send(ask(stage, "__consumer_offsets"))


@case("the coordinators' topics that may not be there yet", since=4)
def internal_unmade(stage: Stage) -> None:
    stage.send(ask(stage, "__no_such_internal_topic"))


@case("authorized operations", since=8)
def operations(stage: Stage) -> None:
    """The operations that the client is authorized for are reported, of topics and of the cluster.

    Versions after 10 no longer have the cluster's.
    """
    topic = stage.topic()
    request = ask(stage, topic.name, stage.name("nothing"))
    request.include_topic_authorized_operations = True
    stage.send(request)
    if stage.version <= 10:
        request.include_cluster_authorized_operations = True
        stage.send(request)


@case("topics by id", since=10)
def by_id(stage: Stage) -> None:
    """Topics are described by id: existing, unknown, with a name too, and the empty id."""
    topic = stage.topic()
    stage.send(MetadataRequest([MetadataRequestTopic(topic.id, None)]))
    stage.send(MetadataRequest([MetadataRequestTopic(UNKNOWN_ID, None)]))
    stage.send(MetadataRequest([MetadataRequestTopic(topic.id, topic.name)]))
    stage.send(MetadataRequest([MetadataRequestTopic(ZERO_UUID, None)]))


@case("authorized operations of an unknown id", since=10)
def unknown_operations(stage: Stage) -> None:
    request = MetadataRequest([MetadataRequestTopic(UNKNOWN_ID, None)])
    request.include_topic_authorized_operations = True
    stage.send(request)


@case("null name without an id", since=10)
def null_name(stage: Stage) -> None:
    if stage.version < 10:
        raise NotApplicable
    stage.send(MetadataRequest([MetadataRequestTopic(ZERO_UUID, None)]))
