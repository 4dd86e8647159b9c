"""A real kwire broker for a test: a process of its own, on a free port, with its own data.

with BrokerProcess(tmp_path) as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)

And several that are a cluster (`ClusterProcess`), on a real ZooKeeper (`ZooKeeperProcess`), or on
one machine without (`SharedClusterProcess`).
"""

from __future__ import annotations

from kwire.testing.cluster import ClusterProcess
from kwire.testing.host import Host
from kwire.testing.ports import free_port
from kwire.testing.process import BrokerProcess, BrokerStartError
from kwire.testing.sharing import SharedClusterProcess
from kwire.testing.zookeeper import ZooKeeperMissing, ZooKeeperProcess, ZooKeeperStartError

__all__ = [
    "BrokerProcess",
    "BrokerStartError",
    "ClusterProcess",
    "Host",
    "SharedClusterProcess",
    "ZooKeeperMissing",
    "ZooKeeperProcess",
    "ZooKeeperStartError",
    "free_port",
]
