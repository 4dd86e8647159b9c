"""Starts the brokers whose metrics are compared: kwire alone or three, and Apache Kafka's."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwire.conformance.apache_kafka import QUICK_JVM, ApacheKafka
from kwire.conformance.metrics.agent import option
from kwire.conformance.metrics.load import SETTINGS
from kwire.testing import BrokerProcess, SharedClusterProcess
from kwire.testing.cluster import cluster_view, replicated
from kwire.testing.hosting.ports import free_port, free_ports

CONTROLLER_ID: Final = 100
HOST: Final = "127.0.0.1"
MEMBERS_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.05
RENEWAL_S: Final = 65.0
"""Apache Kafka counts groups by state once a minute."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A running cluster: the addresses of its brokers, and of their metrics."""

    bootstrap: str
    urls: tuple[str, ...]
    controllers: tuple[str, ...] = ()
    """The metrics of controllers that are no brokers."""
    renewal_s: float = 0.0
    """After this time all metrics show what has happened."""


def _url(port: int) -> str:
    return f"http://{HOST}:{port}/metrics"


@contextlib.contextmanager
def kwire(directory: Path, count: int) -> Iterator[Subject]:
    """Start kwire brokers with metrics: one alone, or a cluster of `kwire serve --brokers`."""
    if count == 1:
        port = free_port()
        with BrokerProcess(directory, SETTINGS | {"metrics.port": str(port)}) as broker:
            yield Subject(broker.bootstrap, (_url(port),))
        return
    first = free_ports(count)
    ports = range(first, first + count)  # each further broker takes the next port
    settings = SETTINGS | {"metrics.port": str(ports[0])}
    with SharedClusterProcess(directory, count, settings) as cluster:
        yield Subject(cluster.bootstrap, tuple(_url(port) for port in ports))


@contextlib.contextmanager
def apache(directory: Path, count: int) -> Iterator[Subject]:
    """Start brokers of Apache Kafka beside one controller, each with the agent.

    The controller is a node of its own, because a node that is both counts the requests that its
    broker passes on to it twice.  Brokers reach each other by a listener of their own, so that the
    connections of PLAINTEXT are those of clients.
    """
    metrics = [free_port() for _ in range(count + 1)]
    controller_port = free_port()
    common = {
        **replicated(count),
        **SETTINGS,
        "controller.quorum.voters": f"{CONTROLLER_ID}@localhost:{controller_port}",
        "group.initial.rebalance.delay.ms": "0",
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "INTERNAL", "CONTROLLER")
        ),
    }
    listener = f"CONTROLLER://localhost:{controller_port}"
    nodes = [
        _node(
            directory,
            CONTROLLER_ID,
            controller_port,
            metrics[0],
            common | {"process.roles": "controller", "listeners": listener},
        )
    ]
    for number in range(1, count + 1):
        port = free_port()
        listeners = f"PLAINTEXT://localhost:{port},INTERNAL://localhost:{free_port()}"
        own = {"process.roles": "broker", "listeners": listeners, "advertised.listeners": listeners}
        nodes.append(_node(directory, number, port, metrics[number], common | own))
    try:
        for node in nodes:
            node.format()
            node.spawn()
        for node in nodes:
            node.wait_until_up()
        _wait_until_members(nodes[1:])
        bootstrap = ",".join(node.bootstrap for node in nodes[1:])
        controller, *urls = [_url(port) for port in metrics]
        yield Subject(bootstrap, tuple(urls), (controller,), RENEWAL_S)
    finally:
        for node in reversed(nodes):
            node.stop()


def _node(
    directory: Path, node_id: int, port: int, metrics: int, settings: Mapping[str, str]
) -> ApacheKafka:
    """Return a node that listens on `port` and gives its metrics on the port `metrics`."""
    own = {"node.id": str(node_id), **settings}
    if settings["process.roles"] == "controller":
        own["advertised.listeners"] = settings["listeners"]
    return ApacheKafka(
        directory / f"node-{node_id}", port=port, settings=own, jvm=(*QUICK_JVM, option(metrics))
    )


def _wait_until_members(brokers: list[ApacheKafka]) -> None:
    """Wait until all brokers report the same members; raises TimeoutError after two minutes."""
    ids = frozenset(range(1, len(brokers) + 1))
    deadline = time.monotonic() + MEMBERS_TIMEOUT_S
    while not all(_members(broker.port) == ids for broker in brokers):
        if time.monotonic() > deadline:
            raise TimeoutError(f"brokers {sorted(ids)} do not form a cluster")
        time.sleep(POLL_S)


def _members(port: int) -> frozenset[int]:
    """The brokers that the broker at this port reports; none if it does not answer."""
    view = cluster_view(port)
    return frozenset() if view is None else frozenset(view.members)
