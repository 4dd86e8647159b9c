"""Starts clusters of kwire or of Apache Kafka for a run; each one yields its addresses.

| | kwire | Apache Kafka |
| --- | --- | --- |
| on ZooKeeper | a process for each broker | 3.9.2 |
| without | `kwire serve --brokers N` | nodes of KRaft, each broker and controller |

On ZooKeeper the brokers' ids begin with the setting `node.id` (1 if it is not given); without,
they are counted from 1, as `kwire serve --brokers` has it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from kwire.conformance.apache_kafka import ApacheKafka, ApacheKafkaError, ZooKeeperBroker
from kwire.conformance.local import POLL_S, SETTINGS, START_TIMEOUT_S
from kwire.testing import ClusterProcess, SharedClusterProcess, ZooKeeperProcess
from kwire.testing.cluster import agreed_controller, cluster_view, replicated
from kwire.testing.hosting.ports import free_port

Start = Callable[[Path, int, Mapping[str, str]], AbstractContextManager[str]]


AUTHORIZER = "authorizer.class.name"
AUTHORIZERS_ON_ZOOKEEPER = {
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer": (
        "kafka.security.authorizer.AclAuthorizer"
    )
}
"""The authorizer class of brokers that keep ACLs in ZooKeeper."""


def _on_zookeeper(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for brokers on ZooKeeper that correspond to the given ones."""
    translated = dict(settings)
    if (authorizer := translated.get(AUTHORIZER)) is not None:
        translated[AUTHORIZER] = AUTHORIZERS_ON_ZOOKEEPER.get(authorizer, authorizer)
    return translated


@contextlib.contextmanager
def kwire(directory: Path, count: int, more: Mapping[str, str]) -> Iterator[str]:
    """Start a cluster of `kwire serve --brokers COUNT` with `more` settings, except the ids."""
    settings = SETTINGS | dict(more)
    settings.pop("node.id", None)
    with SharedClusterProcess(directory, count, settings) as cluster:
        yield cluster.bootstrap


@contextlib.contextmanager
def kwire_on_zookeeper(directory: Path, count: int, more: Mapping[str, str]) -> Iterator[str]:
    """Start a cluster of kwire brokers with a ZooKeeper and `more` settings."""
    settings = SETTINGS | _on_zookeeper(more)
    first_id = int(settings.pop("node.id", "1"))
    with (
        ZooKeeperProcess(directory / "zookeeper") as zookeeper,
        ClusterProcess(
            directory, zookeeper.connect("/suites"), count, settings, first_id=first_id
        ) as cluster,
    ):
        yield cluster.bootstrap


@contextlib.contextmanager
def apache_on_zookeeper(directory: Path, count: int, more: Mapping[str, str]) -> Iterator[str]:
    """Start a cluster of Apache Kafka 3.9.2 brokers with a ZooKeeper and `more` settings."""
    settings = replicated(count) | SETTINGS | _on_zookeeper(more)
    first_id = int(settings.pop("node.id", "1"))
    with ZooKeeperProcess(directory / "zookeeper") as zookeeper:
        connect = zookeeper.connect("/suites")
        brokers = []
        for number in range(first_id, first_id + count):
            port = free_port()
            # Set explicitly, because a suite tests whether a setting was set.
            own = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
            folder = directory / f"broker-{number}"
            broker = ZooKeeperBroker(folder, connect, number, port=port, settings=settings | own)
            brokers.append(broker)
        with _running(brokers, range(first_id, first_id + count)):
            yield ",".join(f"127.0.0.1:{broker.port}" for broker in brokers)


@contextlib.contextmanager
def apache(directory: Path, count: int, more: Mapping[str, str]) -> Iterator[str]:
    """Start a KRaft cluster of Apache Kafka nodes with `more` settings, except the ids."""
    settings = replicated(count) | SETTINGS | dict(more)
    ids = range(1, count + 1)
    controllers = {number: free_port() for number in ids}
    voters = ",".join(f"{number}@localhost:{port}" for number, port in controllers.items())
    nodes = []
    for number, controller in controllers.items():
        port = free_port()
        own = {
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}",
        }
        node = ApacheKafka(directory / f"node-{number}", port=port, settings=settings | own)
        nodes.append(node)
    with _running(nodes, ids):
        yield ",".join(node.bootstrap for node in nodes)


@contextlib.contextmanager
def _running(brokers: Sequence[ApacheKafka], ids: Sequence[int]) -> Iterator[None]:
    """Run the brokers; yield their addresses once each of them knows all others."""
    try:
        for broker in brokers:
            broker.format()
            broker.spawn()
        for broker in brokers:
            broker.wait_until_up()
        _wait_until_members(brokers, frozenset(ids))
        yield
    finally:
        for broker in brokers:
            broker.stop()


def _wait_until_members(brokers: Sequence[ApacheKafka], ids: frozenset[int]) -> None:
    """Wait until all brokers report the same members and controller.

    Raise ApacheKafkaError after START_TIMEOUT_S seconds.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        views = [cluster_view(broker.port) for broker in brokers]
        if agreed_controller(views, ids) is not None:
            return
        if time.monotonic() > deadline:
            raise ApacheKafkaError(f"brokers {sorted(ids)} do not form a cluster: {views}")
        time.sleep(POLL_S)


def starter(*, oracle: bool, zookeeper: bool) -> Start:
    """Return the function that starts a cluster of Apache Kafka or of kwire."""
    if oracle:
        return apache_on_zookeeper if zookeeper else apache
    return kwire_on_zookeeper if zookeeper else kwire
