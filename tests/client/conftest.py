"""Brokers for the client's tests: kwire and, where Java is installed, Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kwire.client.cluster import Cluster

Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture
def eventually() -> Eventually:
    """Wait until a condition holds: Apache Kafka's brokers learn of changes a little later."""

    def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not holds():
            assert time.monotonic() < deadline, "it did not come to hold"
            time.sleep(0.02)

    return wait


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
