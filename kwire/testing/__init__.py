"""A real kwire broker for a test: a process of its own, on a free port, with its own data.

with Kafka() as kafka:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)

`Kafka` is for whole test runs (kwire.testing.kafka): it can be fresh again in a moment, and has
helpers to fill topics and to look into them; pytest has it as the fixture `kafka`
(kwire.testing.plugin).  `BrokerProcess` is one `kwire serve`, with a folder that the caller gives.
Several are a cluster: `KafkaCluster`, whose leaders and coordinators move when a test says so;
`ClusterProcess`, on a real ZooKeeper (`ZooKeeperProcess`), or on one machine without
(`SharedClusterProcess`).

Each is imported when it is first asked for: pytest imports this package in every run.
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
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kwire.check_system()
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
