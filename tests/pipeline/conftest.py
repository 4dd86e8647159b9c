"""What the tests of jobs share."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewTopic

from tests.pipeline.targets import Target, create


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that is bound and never listens, so that no broker gets it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture(
    params=["kwire", pytest.param("apache", marks=[pytest.mark.java, pytest.mark.long])]
)
def target(request: pytest.FixtureRequest, unique: str) -> Target:
    """A topic on kwire, and before a release on Apache Kafka; `on_both` always runs on both."""
    if request.param == "kwire":
        bootstrap = request.getfixturevalue("bootstrap")
    else:
        bootstrap = request.getfixturevalue("apache_kafka").bootstrap
    target = Target(bootstrap, unique)
    create(target, NewTopic(target.topic, 2), NewTopic(target.map_topic, 1))
    return target
