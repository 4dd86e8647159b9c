"""Brokers for what the pages show: kwire and, where Java is installed, Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from kwire.client.cluster import Cluster

T = TypeVar("T")


def awaited(ask: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """What `ask` returns once it fits: Apache Kafka's brokers learn of changes a little later."""
    deadline = time.monotonic() + 120
    while not holds(found := ask()):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


@pytest.fixture(
    params=[
        "kwire",
        pytest.param("apache_kafka", marks=[pytest.mark.java, pytest.mark.slow]),
    ]
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    name = "shared_broker" if request.param == "kwire" else request.param
    bootstrap: str = request.getfixturevalue(name).bootstrap
    with Cluster(bootstrap, timeout_s=60) as found:
        yield found
