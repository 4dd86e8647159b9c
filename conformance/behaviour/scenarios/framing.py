"""Scenarios of frames: versions, headers and several requests on one connection."""

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
"""Tags 16381 with three bytes and 16382 with none, which have no meaning in the protocol."""


@scenario()
def newer_api_versions(stage: ScenarioStage) -> None:
    """Too new a version of ApiVersions is answered in version 0 with UNSUPPORTED_VERSION.

    The connection stays open, so that the client can ask again in a supported version.
    """
    for version in (6, 99):
        stage.send_bytes(b"\x05wire\x041.0\x00", version, api_key=ApiKey.API_VERSIONS)
    stage.send(ApiVersionsRequest("wire", "1.0"), 3)


@scenario()
def api_versions_header(stage: ScenarioStage) -> None:
    """The header of an ApiVersions response has no tags in any version.

    An extra byte would be found because the response is decoded to its end.
    """
    for version in range(5):
        stage.send(ApiVersionsRequest("wire", "1.0"), version)


@scenario()
def null_arrays(stage: ScenarioStage) -> None:
    """Null and empty arrays differ, in compact and in older encodings."""
    for version in (1, 8, 9, 12):
        stage.send(MetadataRequest(topics=[]), version)
        stage.send(MetadataRequest(topics=None), version)
    stage.send(MetadataRequest(topics=[]), 0)


@scenario()
def client_software(stage: ScenarioStage) -> None:
    """Names and versions of client software are checked; the connection stays open."""
    for name, version in (("a b", "1"), ("-a", "1"), ("a", ""), ("", "1"), ("a", "1.0-rc_1")):
        stage.send(ApiVersionsRequest(name, version), 3)
    stage.send(ApiVersionsRequest("a.b-c", "1.0-rc.1"), 3)


@scenario()
def client_ids(stage: ScenarioStage) -> None:
    """A client id may be null, empty, long, or not ASCII."""
    topic = stage.topic()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)])
    for client_id in (None, "", "x" * 3000, "\u00e9\u4e2d\U0001f600"):
        for version in (0, 8, 9, 12):
            if version == 0:
                request.allow_auto_topic_creation = True
            stage.send_bytes(
                request.encode(version), version, api_key=ApiKey.METADATA, client_id=client_id
            )


@scenario()
def unknown_tags(stage: ScenarioStage) -> None:
    """Unknown tags are skipped in every place."""
    topic = stage.topic()
    for version in (9, 12):
        body = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False
        ).encode(version)
        assert body.endswith(EMPTY_TAGS)
        stage.send_bytes(body[:-1] + TWO_UNKNOWN_TAGS, version, api_key=ApiKey.METADATA)


@scenario()
def known_tags(stage: ScenarioStage) -> None:
    """The cluster id in a fetch of a client has no effect."""
    topic = stage.topic()
    for cluster_id in (None, "", "another-cluster"):
        stage.send(fetch(topic, cluster_id=cluster_id))


@scenario()
def optional_ids(stage: ScenarioStage) -> None:
    """Missing ids are -1: preferred replica, current leader."""
    topic = stage.topic()
    for version in (11, 12, 13):
        stage.send(fetch(topic), version)
        stage.send(fetch(topic, 77), version)
    stage.send(produce(topic, batch(stage, b"a")))


@scenario()
def acks_0(stage: ScenarioStage) -> None:
    """Produce with acks=0 has no response; later requests are answered in order."""
    topic = stage.topic()
    for number in range(3):
        stage.send_unanswered(produce(topic, batch(stage, b"%d" % number), acks=0))
        stage.begin(fetch(topic))
    for _ in range(3):
        stage.end()


@scenario()
def acks_0_refused(stage: ScenarioStage) -> None:
    """A refused Produce with acks=0 closes the connection, since it has no response."""
    topic = stage.topic(configs={"max.message.bytes": "100"})
    stage.send_unanswered(produce(topic, batch(stage, b"x" * 500), acks=0))
    stage.send(fetch(topic))
    stage.send(fetch(topic))


@scenario()
def a_long_poll_holds_the_connection(stage: ScenarioStage) -> None:
    """Requests behind a fetch that waits are answered after it, in order."""
    topic = stage.topic()
    with stage.lasts("both", 0.35, 5.0):
        stage.begin(fetch(topic, max_wait_ms=400, min_bytes=1))
        stage.begin(produce(topic, batch(stage, b"a")))
        stage.begin(fetch(topic))
        for _ in range(3):
            stage.end()


@scenario()
def pipelined(stage: ScenarioStage) -> None:
    """Fifty requests at once on one connection are answered in order."""
    topic = stage.topic()
    for number in range(25):
        stage.begin(produce(topic, batch(stage, b"%d" % number)))
        stage.begin(fetch(topic, number))
    for _ in range(50):
        stage.end()


@scenario()
def acks_out_of_range(stage: ScenarioStage) -> None:
    """Values of acks other than -1, 0 and 1 are refused."""
    topic = stage.topic()
    for acks in (2, -2, 1000):
        stage.send(produce(topic, batch(stage, b"a"), acks=acks))
    stage.send(fetch(topic))
