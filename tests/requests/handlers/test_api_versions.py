"""ApiVersions names the broker that the client means (v5, KIP-1242)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.requests.handlers.node import NODE_ID, Node

OURS = "test-cluster"


def answer(node: Node, cluster_id: str | None, node_id: int, name: str = "test") -> ErrorCode:
    """The error of ApiVersions; an answer with an error lists nothing."""
    request = ApiVersionsRequest(name, "1.0", cluster_id, node_id)
    response: ApiVersionsResponse = node.call(request, 5)
    is_refused = response.error_code != ErrorCode.NONE
    assert bool(response.api_keys) != is_refused
    assert bool(response.supported_features) != is_refused
    return ErrorCode(response.error_code)


@pytest.mark.parametrize(("cluster_id", "node_id"), [(None, -1), (OURS, NODE_ID)])
def test_api_versions_are_listed_for_this_broker_or_without_a_destination(
    node: Node, cluster_id: str | None, node_id: int
) -> None:
    assert answer(node, cluster_id, node_id) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("cluster_id", "node_id"), [(OURS, 2), (OURS, -2), ("other", NODE_ID), ("", NODE_ID)]
)
def test_another_cluster_or_broker_gets_rebootstrap_required(
    node: Node, cluster_id: str, node_id: int
) -> None:
    assert answer(node, cluster_id, node_id) == ErrorCode.REBOOTSTRAP_REQUIRED


@pytest.mark.parametrize(
    ("cluster_id", "node_id"), [(OURS, -1), ("other", -1), (None, NODE_ID), (None, 2)]
)
def test_half_of_a_destination_gets_invalid_request(
    node: Node, cluster_id: str | None, node_id: int
) -> None:
    assert answer(node, cluster_id, node_id) == ErrorCode.INVALID_REQUEST


def test_invalid_software_name_is_refused_before_another_destination(node: Node) -> None:
    assert answer(node, "other", 7, name="") == ErrorCode.INVALID_REQUEST


def test_destination_is_checked_from_version_5(node: Node) -> None:
    response: ApiVersionsResponse = node.call(ApiVersionsRequest("test", "1.0", "other", 7), 4)
    assert response.error_code == ErrorCode.NONE


def test_quorum_requests_are_listed_except_on_zookeeper(make_node: Callable[..., Node]) -> None:
    quorum = {55, 64, 80, 81, 94}
    for settings, listed in (({}, quorum), ({"zookeeper.connect": "localhost:1"}, set())):
        response = make_node(settings).call(ApiVersionsRequest("test", "1.0"), 5)
        assert {each.api_key for each in response.api_keys} & quorum == listed
