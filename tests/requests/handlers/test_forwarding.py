"""Requests that a broker sends on to the controllers of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.cluster.metadata.changes import RegisterBroker
from kwire.cluster.metadata.image import BrokerImage, Endpoint
from kwire.cluster.stores.kraft.forwarding import NotForwarded
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import request_class
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.describe_cluster import DescribeClusterRequest
from kwire.codecs.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kwire.codecs.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.codecs.primitives import Message
from kwire.requests.context import CloseConnection
from kwire.requests.route import Route
from kwire.requests.routes import CLUSTER_ROUTES, UnservedRequest
from tests.requests.handlers.controllers import AUTHORIZER, Controllers, answer, join
from tests.requests.handlers.node import Node

MakeNode = Callable[..., Node]


async def test_request_for_the_controllers_is_forwarded_and_the_answer_is_theirs(
    node: Node,
) -> None:
    response = DescribeQuorumResponse(error_code=ErrorCode.NONE)
    controllers = Controllers(lambda _: response)
    join(node, controllers)
    assert await answer(node, DescribeQuorumRequest(), 1) is response
    assert [type(each) for each in controllers.forwarded] == [DescribeQuorumRequest]


async def test_broker_without_such_controllers_answers_itself(node: Node) -> None:
    request = CreateTopicsRequest([CreatableTopic("t", 0, 1)], timeout_ms=1000)
    response = await answer(node, request, 7)
    assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_PARTITIONS]


async def test_rights_of_a_forwarded_request_are_checked_by_the_controllers(
    make_node: MakeNode,
) -> None:
    node = make_node(AUTHORIZER)
    refused = await answer(node, DescribeQuorumRequest(), 1)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    join(node, Controllers())
    allowed = await answer(node, DescribeQuorumRequest(), 1)
    assert allowed.error_code == ErrorCode.NONE


async def test_version_that_the_controllers_do_not_know_closes_the_connection(node: Node) -> None:
    join(node, Controllers(failure=NotForwarded(ErrorCode.UNSUPPORTED_VERSION, "v1")))
    with pytest.raises(CloseConnection, match="v1"):
        await answer(node, DescribeQuorumRequest(), 1)


async def test_request_that_no_controller_answers_has_an_error_for_each_topic(node: Node) -> None:
    join(node, Controllers(failure=NotForwarded(ErrorCode.REQUEST_TIMED_OUT, "nobody")))
    request = CreateTopicsRequest([CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 1)])
    response = await answer(node, request, 7)
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("a", ErrorCode.REQUEST_TIMED_OUT),
        ("b", ErrorCode.REQUEST_TIMED_OUT),
    ]


@pytest.mark.parametrize("route", CLUSTER_ROUTES, ids=lambda route: route.api_key.name)
@pytest.mark.parametrize("settings", [{}, AUTHORIZER], ids=["anybody", "authorizer"])
async def test_request_between_brokers_and_other_controllers_is_not_served(
    route: Route, settings: dict[str, str], make_node: MakeNode
) -> None:
    node = make_node(settings)
    join(node, Controllers())
    with pytest.raises(UnservedRequest):
        await answer(node, request_class(route.api_key)(), route.max_version)


# -- what clients are told of the controllers


def register(node: Node, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        endpoint = Endpoint("PLAINTEXT", "localhost", 9000 + broker_id, "PLAINTEXT")
        node.show(RegisterBroker(BrokerImage(broker_id, (endpoint,))))


@pytest.mark.parametrize("request_", [MetadataRequest(topics=[]), DescribeClusterRequest()])
async def test_live_broker_stands_for_the_controllers(request_: Message, node: Node) -> None:
    join(node, Controllers())
    version = 1
    assert (await answer(node, request_, version)).controller_id == -1
    register(node, 3, 5)
    named = [(await answer(node, request_, version)).controller_id for _ in range(50)]
    assert set(named) == {3, 5}, "each with a probability of a half"


async def versions_told(node: Node) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    response = await answer(node, request, 4)
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


async def test_requests_between_brokers_and_other_controllers_are_not_advertised(
    node: Node,
) -> None:
    join(node, Controllers())
    told = await versions_told(node)
    assert not told.keys() & {route.api_key for route in CLUSTER_ROUTES}
    assert told[ApiKey.CREATE_TOPICS] == (2, 7)


async def test_forwarded_request_is_advertised_as_far_as_the_controllers_know_it(
    node: Node,
) -> None:
    known: dict[int, tuple[int, int]] = {
        ApiKey.CREATE_TOPICS: (3, 6),
        ApiKey.DELETE_TOPICS: (7, 9),
        ApiKey.FETCH: (4, 5),
    }
    before = await versions_told(node)
    join(node, Controllers(versions=known))
    told = await versions_told(node)
    assert told[ApiKey.CREATE_TOPICS] == (3, 6)
    assert ApiKey.DELETE_TOPICS not in told, "no version in common"
    assert ApiKey.CREATE_ACLS not in told, "unknown to the controllers"
    assert told[ApiKey.FETCH] == before[ApiKey.FETCH], "it is answered here"


async def test_epoch_of_the_features_is_the_offset_of_the_newest_record(node: Node) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    join(node, Controllers())
    register(node, 3)
    response = await answer(node, request, 4)
    assert response.finalized_features_epoch == node.broker.image.version - 1


# -- delegation tokens: what the broker itself refuses

CREATE = CreateDelegationTokenRequest("User", "bob", max_lifetime_ms=-1)
TOKEN_REQUESTS = [
    (CREATE, 3),
    (RenewDelegationTokenRequest(b"x", 1), 2),
    (ExpireDelegationTokenRequest(b"x", 1), 2),
]
WITH_LOGIN = {"listeners": "PLAINTEXT://localhost:0,SASL_PLAINTEXT://localhost:0"}


@pytest.mark.parametrize(("request_", "version"), TOKEN_REQUESTS)
async def test_client_without_a_login_has_no_part_in_tokens(
    request_: Message, version: int, make_node: MakeNode
) -> None:
    node, controllers = make_node(WITH_LOGIN), Controllers()
    join(node, controllers)
    response = await answer(node, request_, version)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert response.expiry_timestamp_ms == -1
    assert not controllers.forwarded
    await answer(node, request_, version, listener="SASL_PLAINTEXT")
    assert len(controllers.forwarded) == 1


async def test_token_for_somebody_else_needs_a_right_that_the_broker_checks(
    make_node: MakeNode,
) -> None:
    node = make_node(WITH_LOGIN | AUTHORIZER | {"super.users": "User:root"})
    response = CreateDelegationTokenResponse(token_id="id")
    controllers = Controllers(lambda _: response)
    join(node, controllers)
    refused = await answer(node, CREATE, 3, listener="SASL_PLAINTEXT")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert not controllers.forwarded
    for principal in ("User:root", "User:bob"):
        created = await answer(node, CREATE, 3, principal=principal, listener="SASL_PLAINTEXT")
        assert created is response


@pytest.mark.parametrize("settings", [{}, AUTHORIZER], ids=["anybody", "authorizer"])
async def test_token_with_a_renewer_that_is_no_user_is_refused_by_the_broker(
    settings: dict[str, str], make_node: MakeNode
) -> None:
    node, controllers = make_node(WITH_LOGIN | settings), Controllers()
    join(node, controllers)
    request = CreateDelegationTokenRequest(renewers=[CreatableRenewers("Role", "x")])
    refused = await answer(node, request, 3, listener="SASL_PLAINTEXT")
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert refused.issue_timestamp_ms == -1
    assert not controllers.forwarded
