"""Starts real kwire brokers for tests, each in its own process with its own port and data.

with Kafka() as kafka:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)

One broker:
    Kafka                  serves a whole test run; `reset()` replaces it with an empty broker in
                           milliseconds, and its methods fill and read topics.  The pytest fixture
                           `kafka` (kwire.testing.plugin) is a `Kafka`.
    BrokerProcess          one `kwire serve` in a folder that the caller names.

Several brokers:
    KafkaCluster           a cluster whose leaders and coordinators move on request.
    ClusterProcess         a cluster on a real ZooKeeper (`ZooKeeperProcess`).
    SharedClusterProcess   a cluster on one machine without ZooKeeper.

Each name is imported on first use, because pytest imports this package in every run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

import kwire

if TYPE_CHECKING:
    from kwire.testing.clock import Clock
    from kwire.testing.cluster import ClusterProcess
    from kwire.testing.control import ControlError
    from kwire.testing.faults import Fault, Faults
    from kwire.testing.hosting.host import Host
    from kwire.testing.hosting.ports import free_port
    from kwire.testing.hosting.process import BrokerProcess, BrokerStartError
    from kwire.testing.kafka import Kafka
    from kwire.testing.several.cluster import KafkaCluster
    from kwire.testing.sharing import SharedClusterProcess
    from kwire.testing.snapshots import Snapshot
    from kwire.testing.topics import Topic
    from kwire.testing.traces import Trace
    from kwire.testing.values import NotARecord, Record
    from kwire.testing.zookeeper import ZooKeeperMissing, ZooKeeperProcess, ZooKeeperStartError

__all__ = [
    "BrokerProcess",
    "BrokerStartError",
    "Clock",
    "ClusterProcess",
    "ControlError",
    "Fault",
    "Faults",
    "Host",
    "Kafka",
    "KafkaCluster",
    "NotARecord",
    "Record",
    "SharedClusterProcess",
    "Snapshot",
    "Topic",
    "Trace",
    "ZooKeeperMissing",
    "ZooKeeperProcess",
    "ZooKeeperStartError",
    "free_port",
]

_MODULES: Final = {
    "BrokerProcess": "hosting.process",
    "BrokerStartError": "hosting.process",
    "Clock": "clock",
    "ClusterProcess": "cluster",
    "ControlError": "control",
    "Fault": "faults",
    "Faults": "faults",
    "Host": "hosting.host",
    "Kafka": "kafka",
    "KafkaCluster": "several.cluster",
    "NotARecord": "values",
    "Record": "values",
    "SharedClusterProcess": "sharing",
    "Snapshot": "snapshots",
    "Topic": "topics",
    "Trace": "traces",
    "ZooKeeperMissing": "zookeeper",
    "ZooKeeperProcess": "zookeeper",
    "ZooKeeperStartError": "zookeeper",
    "free_port": "hosting.ports",
}


def __getattr__(name: str) -> object:
    """Imports a public name of this package when it is first used (PEP 562), and stores it here.
    Raises AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kwire.check_system()
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
