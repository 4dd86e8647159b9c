"""An Apache Kafka 3.9.2 broker that accepts a test as its controller, by a later epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing.zookeeper import ZooKeeperProcess

APACHE = 1
"""Its broker id."""


@contextmanager
def obedient_broker(
    zookeeper: ZooKeeperProcess,
    directory: Path,
    chroot: str,
    more: Mapping[str, str] | None = None,
) -> Iterator[ZooKeeperBroker]:
    """A broker that is alone in its cluster in ZooKeeper."""
    settings = {
        **(more or {}),
        "replica.fetch.wait.max.ms": "100",
        "replica.fetch.backoff.ms": "20",
        "replica.lag.time.max.ms": "60000",
        "controlled.shutdown.enable": "false",  # it would ask its controller, the test, for 10 s
    }
    connect = zookeeper.connect(chroot)
    with ZooKeeperBroker(directory, connect, APACHE, settings=settings) as broker:
        yield broker
