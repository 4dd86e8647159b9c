"""Which of two errors a config request gets: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.requests.handlers.node import Node

TOPIC, NO_KIND = 2, 0
SET, DELETE, APPEND = 0, 1, 2


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (AlterableConfig("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (AlterableConfig("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (AlterableConfig("no.such.thing", SET, "1"), ErrorCode.INVALID_CONFIG),
        (AlterableConfig("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_invalid_config_is_reported_before_an_unknown_topic(
    node: Node, config: AlterableConfig, error: ErrorCode
) -> None:
    resources = [
        AlterConfigsResource(TOPIC, "nothing", [config]),
        AlterConfigsResource(NO_KIND, "x", [config]),
    ]
    reply = node.call(IncrementalAlterConfigsRequest(resources, validate_only=True), 1)
    assert [told.error_code for told in reply.responses] == [error, ErrorCode.INVALID_REQUEST]
