"""Starts kwire or Apache Kafka for a run, with the same settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from kwire.conformance import telemetry_receiver, topology_keeper
from kwire.conformance.apache_kafka import VERSION, ApacheKafka
from kwire.conformance.kraft_cluster import KRaftCluster, KRaftNode
from kwire.testing import BrokerProcess

START_TIMEOUT_S = 120.0
POLL_S = 0.02

PLUGINS = telemetry_receiver, topology_keeper
"""Plug-ins of Apache Kafka's node; kwire's broker has the same."""
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
"""Settings of both brokers: groups start at once instead of waiting for more members."""


@contextlib.contextmanager
def apache(
    directory: Path,
    more: Mapping[str, str] | None = None,
    *,
    port: int = 0,
    version: str = VERSION,
) -> Iterator[str]:
    """Start a node of Apache Kafka with `more` settings; yield its address."""
    given = dict(SETTINGS)
    for plugin in PLUGINS:
        given |= plugin.SETTINGS
    plugins = [plugin.jar() for plugin in PLUGINS]
    given |= dict(more or {})
    with ApacheKafka(
        directory, port=port, settings=given, version=version, plugins=plugins
    ) as node:
        yield node.bootstrap


@contextlib.contextmanager
def kwire(
    directory: Path, more: Mapping[str, str] | None = None, *, port: int = 0
) -> Iterator[str]:
    """Start a broker of this kwire installation with `more` settings; yield its address."""
    given = SETTINGS | topology_keeper.OWN_SETTINGS | dict(more or {})
    with BrokerProcess(directory, given, port=port) as broker:
        yield broker.bootstrap


@contextlib.contextmanager
def beside_controller(
    directory: Path, kind: str, more: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a broker of this kind beside a controller of Apache Kafka; yield its address.

    `kind` is one of kraft_cluster.
    """
    cluster = KRaftCluster(directory, [kind], settings={**SETTINGS, **(more or {})})
    [broker] = cluster.brokers.values()
    if isinstance(broker, KRaftNode):
        for plugin in PLUGINS:
            broker.settings.update(plugin.SETTINGS)
        broker.plugins = tuple(plugin.jar() for plugin in PLUGINS)
    else:
        broker.settings.update(topology_keeper.OWN_SETTINGS)
    with cluster:
        yield cluster.bootstrap
