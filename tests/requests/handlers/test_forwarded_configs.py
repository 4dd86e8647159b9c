"""Changes of configs: the broker does a part, and the controllers of Apache Kafka the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kwire.cluster.stores.kraft.forwarding import NotForwarded
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import alter_configs, incremental_alter_configs
from kwire.codecs.primitives import Message
from kwire.settings import ConfigResourceType
from tests.requests.handlers.controllers import AUTHORIZER, Controllers, answer, join
from tests.requests.handlers.node import NODE_ID, Node

TOPIC, BROKER, LOGGER, METRICS, GROUP = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.GROUP,
)
SET, DELETE, APPEND = 0, 1, 2
OWN = str(NODE_ID)

Wanted = tuple[int, str, list[tuple[str, int, str | None]]]
Outcome = tuple[int, str, int, str | None]


def incremental(
    *wanted: Wanted, validate_only: bool = False
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    messages = incremental_alter_configs
    return messages.IncrementalAlterConfigsRequest(
        [
            messages.AlterConfigsResource(
                kind, name, [messages.AlterableConfig(*config) for config in configs]
            )
            for kind, name, configs in wanted
        ],
        validate_only,
    )


def whole(*wanted: Wanted) -> alter_configs.AlterConfigsRequest:
    messages = alter_configs
    return messages.AlterConfigsRequest(
        [
            messages.AlterConfigsResource(
                kind,
                name,
                [messages.AlterableConfig(config, value) for config, _, value in configs],
            )
            for kind, name, configs in wanted
        ]
    )


def accepted(request: Any) -> Message:  # noqa: ANN401 - of either API
    """The controllers' response, which refuses the topic `bad`."""
    messages: Any = alter_configs
    response = messages.AlterConfigsResponse
    if isinstance(request, incremental_alter_configs.IncrementalAlterConfigsRequest):
        messages = incremental_alter_configs
        response = messages.IncrementalAlterConfigsResponse
    results = [
        messages.AlterConfigsResourceResponse(
            *((ErrorCode.INVALID_CONFIG, "why") if each.resource_name == "bad" else (0, None)),
            each.resource_type,
            each.resource_name,
        )
        for each in reversed(request.resources)
    ]
    answer: Message = response(responses=results)
    return answer


@pytest.fixture
def controllers() -> Controllers:
    return Controllers(accepted)


@pytest.fixture
def forwarding(node: Node, controllers: Controllers) -> Node:
    join(node, controllers)
    return node


async def outcomes(node: Node, request: Message, **sender: str) -> list[Outcome]:
    version = 1 if isinstance(request, alter_configs.AlterConfigsRequest) else 0
    response = await answer(node, request, version, **sender)
    return [
        (each.resource_type, each.resource_name, each.error_code, each.error_message)
        for each in response.responses
    ]


def sent(controllers: Controllers) -> list[list[tuple[int, str]]]:
    """The resources of each forwarded request."""
    return [
        [(each.resource_type, each.resource_name) for each in request.resources]
        for request in controllers.forwarded
    ]


GOOD_TOPIC: Wanted = (TOPIC, "t", [("retention.ms", SET, "1")])


@pytest.mark.parametrize("form", [incremental, whole])
async def test_refusals_of_broker_and_controllers_stand_in_the_order_of_the_request(
    form: Callable[..., Message], forwarding: Node, controllers: Controllers
) -> None:
    request = form(
        (TOPIC, "bad", [("retention.ms", SET, "1")]),
        (BROKER, "9", [("log.retention.ms", SET, "1")]),
        GOOD_TOPIC,
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")]),
        (METRICS, "m", [("metrics", SET, "x"), ("metrics", SET, "y")]),
        (BROKER, OWN, [("log.retention.ms", SET, "1")]),
    )
    assert await outcomes(forwarding, request) == [
        (TOPIC, "bad", ErrorCode.INVALID_CONFIG, "why"),
        (
            BROKER,
            "9",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 9",
        ),
        (TOPIC, "t", 0, None),
        (GROUP, "g", 0, None),
        (METRICS, "m", ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
        (BROKER, OWN, 0, None),
    ]
    assert sent(controllers) == [[(TOPIC, "bad"), (TOPIC, "t"), (GROUP, "g"), (BROKER, OWN)]]


@pytest.mark.parametrize("form", [incremental, whole])
async def test_request_that_the_broker_refuses_is_not_forwarded(
    form: Callable[..., Message], forwarding: Node, controllers: Controllers
) -> None:
    request = form(
        (TOPIC, "t", [("retention.ms", SET, None)]),
        (TOPIC, "twice", []),
        (TOPIC, "twice", []),
        (99, "x", []),
        (BROKER, OWN, [("log.retention.ms", SET, "soon")]),
        (BROKER, "", [("node.id", SET, "7")]),
    )
    got = await outcomes(forwarding, request)
    assert [each[2] for each in got] == [ErrorCode.INVALID_REQUEST] * 6
    assert got[0][3] == "Null value not supported for : retention.ms"
    assert got[1][3] == got[2][3] == "Each resource must appear at most once."
    assert got[3][3] == "Unknown resource type 99"
    assert not controllers.forwarded


async def test_only_the_controllers_know_about_topics(
    forwarding: Node, controllers: Controllers
) -> None:
    request = incremental((TOPIC, "unknown", [("no.such.config", APPEND, "x"), ("y", 9, "z")]))
    assert await outcomes(forwarding, request) == [(TOPIC, "unknown", 0, None)]
    [forwarded] = controllers.forwarded
    assert forwarded.encode(0) == request.encode(0)


async def test_list_of_this_broker_is_checked_with_what_it_has(
    forwarding: Node, controllers: Controllers
) -> None:
    wrong = incremental((BROKER, OWN, [("log.retention.ms", APPEND, "1")]))
    [(_, _, error, message)] = await outcomes(forwarding, wrong)
    assert error == ErrorCode.INVALID_CONFIG
    assert message == "Config value append is not allowed for config key: log.retention.ms"
    assert not controllers.forwarded


async def test_validation_is_forwarded_as_such(forwarding: Node, controllers: Controllers) -> None:
    await outcomes(forwarding, incremental(GOOD_TOPIC, validate_only=True))
    assert [each.validate_only for each in controllers.forwarded] == [True]


async def test_change_that_no_controller_answers_has_its_error(
    node: Node, controllers: Controllers
) -> None:
    controllers.failure = NotForwarded(ErrorCode.REQUEST_TIMED_OUT, "nobody")
    join(node, controllers)
    for form in (incremental, whole):
        got = await outcomes(node, form(GOOD_TOPIC, (BROKER, "9", [])))
        assert [each[2] for each in got] == [
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.INVALID_REQUEST,
        ]


# -- loggers


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger of this broker whose level is put back."""
    found = logging.getLogger("kwire.tests.forwarded")
    yield found
    found.setLevel(logging.NOTSET)


def levels(logger: logging.Logger, value: str = "DEBUG") -> Wanted:
    return LOGGER, OWN, [(logger.name, SET, value)]


async def test_level_of_a_logger_changes_here_and_is_not_forwarded(
    logger: logging.Logger, forwarding: Node, controllers: Controllers
) -> None:
    request = incremental(levels(logger), GOOD_TOPIC)
    assert await outcomes(forwarding, request) == [(LOGGER, OWN, 0, None), (TOPIC, "t", 0, None)]
    assert logger.level == logging.DEBUG
    assert sent(controllers) == [[(TOPIC, "t")]]


async def test_validation_leaves_the_level_of_a_logger(
    logger: logging.Logger, forwarding: Node, controllers: Controllers
) -> None:
    request = incremental(levels(logger), validate_only=True)
    assert await outcomes(forwarding, request) == [(LOGGER, OWN, 0, None)]
    assert logger.level == logging.NOTSET
    assert not controllers.forwarded


async def test_logger_of_the_old_request_is_an_unknown_resource(
    logger: logging.Logger, forwarding: Node
) -> None:
    assert await outcomes(forwarding, whole(levels(logger))) == [
        (LOGGER, OWN, ErrorCode.INVALID_REQUEST, "Unknown resource type 8")
    ]


async def test_right_to_change_loggers_is_checked_by_the_broker(
    logger: logging.Logger, make_node: Callable[..., Node], controllers: Controllers
) -> None:
    node = make_node(AUTHORIZER | {"super.users": "User:root"})
    join(node, controllers)
    request = incremental(levels(logger), GOOD_TOPIC)
    assert await outcomes(node, request) == [
        (LOGGER, OWN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None),
        (TOPIC, "t", 0, None),  # its right is a matter of the controllers
    ]
    assert logger.level == logging.NOTSET
    assert await outcomes(node, incremental(levels(logger)), principal="User:root") == [
        (LOGGER, OWN, 0, None)
    ]
    assert logger.level == logging.DEBUG


async def test_unclear_levels_are_refused_before_the_right_is_checked(
    logger: logging.Logger, make_node: Callable[..., Node], controllers: Controllers
) -> None:
    node = make_node(AUTHORIZER)
    join(node, controllers)
    twice: Wanted = (LOGGER, OWN, [(logger.name, SET, "INFO"), (logger.name, SET, "INFO")])
    [(_, _, error, message)] = await outcomes(node, incremental(twice))
    assert (error, message) == (ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
