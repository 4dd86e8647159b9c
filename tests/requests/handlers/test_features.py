"""The features in ApiVersions responses (KIP-584, KIP-890), with Apache Kafka 4.4.0's levels."""

from __future__ import annotations

import pytest

from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.conformance.wire.broker import address_of
from kwire.conformance.wire.peer import ClientConnection, Reply
from tests.requests.handlers.node import Node


def told(node: Node, version: int) -> ApiVersionsResponse:
    reply: ApiVersionsResponse = node.call(ApiVersionsRequest("test", "1.0"), version)
    return reply


def supported(reply: ApiVersionsResponse) -> dict[str, tuple[int, int]]:
    return {f.name: (f.min_version, f.max_version) for f in reply.supported_features}


def finalized(reply: ApiVersionsResponse) -> dict[str, tuple[int, int]]:
    return {f.name: (f.min_version_level, f.max_version_level) for f in reply.finalized_features}


@pytest.mark.java
@pytest.mark.parametrize("version", [3, 4])
def test_features_of_a_new_broker_are_those_of_apache_kafka(
    node: Node, apache_kafka: ApacheKafkaNode, version: int
) -> None:
    peer = ClientConnection(address_of(apache_kafka.bootstrap))
    peer.send(ApiKey.API_VERSIONS, version, ApiVersionsRequest("test", "1.0").encode(version))
    outcome = peer.receive()
    peer.close()
    assert isinstance(outcome, Reply)
    assert isinstance(outcome.message, ApiVersionsResponse)
    ours = told(node, version)
    assert finalized(ours) == finalized(outcome.message)
    assert supported(ours) == supported(outcome.message)


@pytest.mark.parametrize("version", [3, 4])
def test_api_versions_has_the_finalized_features(node: Node, version: int) -> None:
    assert finalized(told(node, version)) == {
        "metadata.version": (33, 33),
        "transaction.version": (2, 2),
        "group.version": (1, 1),
        "share.version": (2, 2),
        "streams.version": (1, 1),
        "eligible.leader.replicas.version": (1, 1),
    }


def test_features_that_no_one_has_set_are_at_the_levels_of_kafka_4_3(node: Node) -> None:
    """Metadata of a kwire that stood for 4.3 does not name them."""
    set_features(node, asked={"group.version": 0})
    assert finalized(told(node, 4)) == {
        "metadata.version": (30, 30),
        "transaction.version": (2, 2),
        "share.version": (1, 1),
        "streams.version": (1, 1),
    }


def test_features_with_level_0_are_listed_since_v4(node: Node) -> None:
    assert supported(told(node, 3)) == {"metadata.version": (7, 33)}
    assert supported(told(node, 4)) == {
        "metadata.version": (7, 33),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
        "kraft.version": (0, 1),
    }


def test_features_epoch_is_not_negative_and_never_decreases(node: Node) -> None:
    epochs = [told(node, 4).finalized_features_epoch]
    node.create("topic")
    epochs.append(told(node, 4).finalized_features_epoch)
    set_features(node, agreed={})
    epochs.append(told(node, 4).finalized_features_epoch)
    assert min(epochs) >= 0
    assert epochs == sorted(epochs)
    assert epochs[-1] > epochs[0]


def set_features(node: Node, **what: dict[str, int]) -> None:
    """The finalized features as a store gives them to a broker."""
    before = node.broker.image.features
    after = FinalizedFeatures(epoch=before.epoch + 1, **what)
    node.show(SetFeatures(before.epoch, after))


def test_feature_without_a_cluster_level_is_not_finalized(node: Node) -> None:
    """A member may be Apache Kafka 3.9, which has no transaction version 2."""
    set_features(node, agreed={})
    assert finalized(told(node, 4)) == {}
    assert "transaction.version" in supported(told(node, 4))
    set_features(node, agreed={"metadata.version": 30, "transaction.version": 1})
    assert finalized(told(node, 4))["transaction.version"] == (1, 1)
