"""Versions, headers and what a connection carries."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.cases.build import batch, fetch, produce

scenario = Scenarios("framing")

EMPTY_TAGS = b"\x00"
TWO_UNKNOWN_TAGS = b"\x02\xfd\x7f\x03abc\xfe\x7f\x00"
"""Tags 16381 with three bytes and 16382 with none: nobody has given them a meaning."""


@scenario(1)
def newer_api_versions(stage: ScenarioStage) -> None:
    """Trap 1: a version of ApiVersions that is too new is told so in version 0.

    The connection serves on, so that the client can ask again in a version that is there."""
    for version in (6, 99):
        stage.send_bytes(b"\x05wire\x041.0\x00", version, api_key=ApiKey.API_VERSIONS)
    stage.send(ApiVersionsRequest("wire", "1.0"), 3)


@scenario(2, 7)
def api_versions_header(stage: ScenarioStage) -> None:
    """Traps 2 and 7: the reply's header has no tags at any version; the ranges are what they are.

    A byte too many is found when the reply is read to its end."""
    for version in range(5):
        stage.send(ApiVersionsRequest("wire", "1.0"), version)


@scenario(3)
def null_arrays(stage: ScenarioStage) -> None:
    """Trap 3: null and empty arrays are two things, in compact forms and in old ones."""
    for version in (1, 8, 9, 12):
        stage.send(MetadataRequest(topics=[]), version)
        stage.send(MetadataRequest(topics=None), version)
    stage.send(MetadataRequest(topics=[]), 0)


@scenario(4)
def client_software(stage: ScenarioStage) -> None:
    """Trap 4: names and versions of client software are checked, and the connection stays."""
    for name, version in (("a b", "1"), ("-a", "1"), ("a", ""), ("", "1"), ("a", "1.0-rc_1")):
        stage.send(ApiVersionsRequest(name, version), 3)
    stage.send(ApiVersionsRequest("a.b-c", "1.0-rc.1"), 3)


@scenario(5)
def client_ids(stage: ScenarioStage) -> None:
    """Trap 5: a client id may be null, empty, long and not ASCII."""
    topic = stage.topic()
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)])
    for client_id in (None, "", "x" * 3000, "\u00e9\u4e2d\U0001f600"):
        for version in (0, 8, 9, 12):
            if version == 0:
                asked.allow_auto_topic_creation = True
            stage.send_bytes(
                asked.encode(version), version, api_key=ApiKey.METADATA, client_id=client_id
            )


@scenario(6)
def unknown_tags(stage: ScenarioStage) -> None:
    """Trap 6: tags that a version does not know are skipped, wherever they stand."""
    topic = stage.topic()
    for version in (9, 12):
        body = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False
        ).encode(version)
        assert body.endswith(EMPTY_TAGS)
        stage.send_bytes(body[:-1] + TWO_UNKNOWN_TAGS, version, api_key=ApiKey.METADATA)


@scenario(6)
def known_tags(stage: ScenarioStage) -> None:
    """Trap 6: a cluster id in a fetch by a client is read, and says nothing."""
    topic = stage.topic()
    for cluster_id in (None, "", "another-cluster"):
        stage.send(fetch(topic, cluster_id=cluster_id))


@scenario(8)
def optional_ids(stage: ScenarioStage) -> None:
    """Trap 8: ids that are not there are -1: preferred replica, current leader."""
    topic = stage.topic()
    for version in (11, 12, 13):
        stage.send(fetch(topic), version)
        stage.send(fetch(topic, 77), version)
    stage.send(produce(topic, batch(stage, b"a")))


@scenario(9)
def acks_0(stage: ScenarioStage) -> None:
    """Trap 9: acks=0 has no reply, and what is sent after it is answered in order."""
    topic = stage.topic()
    for number in range(3):
        stage.send_unanswered(produce(topic, batch(stage, b"%d" % number), acks=0))
        stage.begin(fetch(topic))
    for _ in range(3):
        stage.end()


@scenario(9)
def acks_0_refused(stage: ScenarioStage) -> None:
    """Trap 9: acks=0 that is refused closes the connection: there is no other way to say so."""
    topic = stage.topic(configs={"max.message.bytes": "100"})
    stage.send_unanswered(produce(topic, batch(stage, b"x" * 500), acks=0))
    stage.send(fetch(topic))
    stage.send(fetch(topic))


@scenario()
def a_long_poll_holds_the_connection(stage: ScenarioStage) -> None:
    """What is sent behind a fetch that waits is answered after it, in order."""
    topic = stage.topic()
    with stage.lasts("both", 0.35, 5.0):
        stage.begin(fetch(topic, max_wait_ms=400, min_bytes=1))
        stage.begin(produce(topic, batch(stage, b"a")))
        stage.begin(fetch(topic))
        for _ in range(3):
            stage.end()


@scenario()
def pipelined(stage: ScenarioStage) -> None:
    """Fifty requests at once on one connection: their replies come in order."""
    topic = stage.topic()
    for number in range(25):
        stage.begin(produce(topic, batch(stage, b"%d" % number)))
        stage.begin(fetch(topic, number))
    for _ in range(50):
        stage.end()


@scenario()
def acks_out_of_range(stage: ScenarioStage) -> None:
    """acks is -1, 0 or 1."""
    topic = stage.topic()
    for acks in (2, -2, 1000):
        stage.send(produce(topic, batch(stage, b"a"), acks=acks))
    stage.send(fetch(topic))
