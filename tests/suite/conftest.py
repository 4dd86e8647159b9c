"""The broker of the suite: kwire.testing, or Apache Kafka with KWIRE_SUITE_ON=apache.

`make test` does not run this suite.  `make suite` measures how long stock clients take with either
broker, and shows that each parallel worker has a broker of its own.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing import Kafka
from tests.suite.clients import BY_NAME, TIMEOUT_S, Client


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.slow)
    item.add_marker(pytest.mark.long)


class Subject(ABC):
    """A broker that clients use, and that can be killed."""

    bootstrap: str

    @abstractmethod
    def lose(self) -> None:
        """Kill the broker and start it again with its data."""


class Ours(Subject):
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.bootstrap = kafka.bootstrap

    def lose(self) -> None:
        self._kafka.kill()
        self._kafka.start()


class Theirs(Subject):
    def __init__(self, node: ApacheKafka) -> None:
        self._node = node
        self.bootstrap = node.bootstrap

    def lose(self) -> None:
        self._node.kill()
        self._node.spawn()
        self._node.wait_until_up()


@pytest.fixture(scope="session")
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Subject]:
    if os.environ.get("KWIRE_SUITE_ON") != "apache":
        yield Ours(request.getfixturevalue("kafka"))
        return
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka")) as node:
        yield Theirs(node)


@pytest.fixture
def bootstrap(subject: Subject) -> str:
    return subject.bootstrap


@pytest.fixture(params=BY_NAME)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Client:
    return BY_NAME[request.param](bootstrap)


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def partitions() -> int:
    """The number of partitions of the test's topic; tests override it."""
    return 1


@pytest.fixture
def topic(admin: AdminClient, unique: str, partitions: int) -> str:
    admin.create_topics([NewTopic(unique, partitions, 1)])[unique].result(TIMEOUT_S)
    return unique
