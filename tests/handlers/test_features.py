"""What ApiVersions says of features (KIP-584, KIP-890), with Apache Kafka 4.3.1's levels."""

from __future__ import annotations

import pytest

from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.handlers.node import Node


def told(node: Node, version: int) -> ApiVersionsResponse:
    reply: ApiVersionsResponse = node.call(ApiVersionsRequest("test", "1.0"), version)
    return reply


@pytest.mark.parametrize("version", [3, 4])
def test_transactions_are_at_version_2(node: Node, version: int) -> None:
    levels = {
        feature.name: (feature.min_version_level, feature.max_version_level)
        for feature in told(node, version).finalized_features
    }
    assert levels == {"transaction.version": (2, 2)}


def test_only_newer_clients_are_told_of_level_0(node: Node) -> None:
    assert told(node, 3).supported_features == []
    supported = {f.name: (f.min_version, f.max_version) for f in told(node, 4).supported_features}
    assert supported == {"transaction.version": (0, 2)}


def test_the_epoch_is_one_that_clients_believe_and_never_goes_back(node: Node) -> None:
    epochs = [told(node, 4).finalized_features_epoch]
    node.create("topic")
    epochs.append(told(node, 4).finalized_features_epoch)
    assert min(epochs) >= 0
    assert epochs == sorted(epochs)
