"""A real kwire broker for a test: a process of its own, on a free port, with its own data.

with BrokerProcess(tmp_path) as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)

And a real ZooKeeper for it to be a member of a cluster (`ZooKeeperProcess`).
"""

from __future__ import annotations

from kwire.testing.ports import free_port
from kwire.testing.process import BrokerProcess, BrokerStartError
from kwire.testing.zookeeper import ZooKeeperMissing, ZooKeeperProcess, ZooKeeperStartError

__all__ = [
    "BrokerProcess",
    "BrokerStartError",
    "ZooKeeperMissing",
    "ZooKeeperProcess",
    "ZooKeeperStartError",
    "free_port",
]
