"""A real kwire broker for a test: a process of its own, on a free port, with its own data.

with BrokerProcess(tmp_path) as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
"""

from __future__ import annotations

from kwire.testing.ports import free_port
from kwire.testing.process import BrokerProcess, BrokerStartError

__all__ = ["BrokerProcess", "BrokerStartError", "free_port"]
