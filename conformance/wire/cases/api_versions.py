"""Cases of ApiVersions: the supported versions, and the answer to a newer client."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.describe_cluster import DescribeClusterRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.API_VERSIONS)


def access_request(version: int, topic_id: bytes) -> ApiVersionsRequest:
    return ApiVersionsRequest("matrix", "1")


@case("twice on one connection")
def twice(stage: Stage) -> None:
    for _ in range(2):
        stage.send(ApiVersionsRequest("wire", "1.0"))


@case("names and versions of client software", since=3)
def software(stage: Stage) -> None:
    for name in ("", "a b", "-a", "a-", "a.b-c", "\u00e9", "a" * 300):
        stage.send(ApiVersionsRequest(name, "1.0"), on=name)
        stage.send(ApiVersionsRequest("wire", name), on=f"version {name}")


@case("the broker that it means", since=5)
def destination(stage: Stage) -> None:
    """The request names the right cluster and broker, other ones, or only one of the two."""
    cluster_id, node_id = stage.broker.cluster_id, stage.broker.node_id
    for cluster in (None, cluster_id, "other", ""):
        for node in (-1, node_id, node_id + 1, -2):
            stage.send(ApiVersionsRequest("wire", "1.0", cluster, node))


@case("a broker that it does not mean, and software without a name", since=5)
def two_mistakes(stage: Stage) -> None:
    for name in ("", "wire"):
        stage.send(ApiVersionsRequest(name, "1.0", "other", 7))
        stage.send(ApiVersionsRequest(name, "-", stage.broker.cluster_id, stage.broker.node_id))


@case("a connection after a wrong destination", since=5)
def usable(stage: Stage) -> None:
    """The connection to another broker than the client means stays open, and serves requests."""
    stage.send(ApiVersionsRequest("wire", "1.0", "other", 7))
    stage.send(ApiVersionsRequest("wire", "1.0", "other"))
    stage.send(DescribeClusterRequest())


@case("a version that does not exist")
def newer(stage: Stage) -> None:
    """Versions that do not exist are answered in version 0; the connection stays open.

    The second body is a valid one: the client's software name `wire` and version `1.0`.
    """
    for version in (6, 100, 32_767):
        stage.send_bytes(b"", version)
        stage.send_bytes(b"\x05wire\x041.0\x00", version)
    stage.send(ApiVersionsRequest("wire", "1.0"))


@case("many requests at once are answered in order")
def pipelined(stage: Stage) -> None:
    """Twenty requests of all versions at once are answered in order."""
    for number in range(20):
        stage.begin(ApiVersionsRequest(f"wire-{number}", "1.0"), number % (stage.version + 1))
    for _ in range(20):
        stage.end()


@case("an API that does not exist")
def nobody(stage: Stage) -> None:
    """Keys that nobody has, and keys that only a controller of Apache Kafka serves."""
    for key in (95, 1000, -1, ApiKey.VOTE, ApiKey.BROKER_HEARTBEAT, ApiKey.UPDATE_RAFT_VOTER):
        stage.send_bytes(b"", 0, api_key=key)


@case("a negative version")
def negative(stage: Stage) -> None:
    stage.send_bytes(b"", -1)
