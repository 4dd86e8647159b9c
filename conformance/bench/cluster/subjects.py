"""The measured clusters: three brokers of one kind with their ZooKeeper."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from kwire.conformance.apache_kafka import SERVER_JVM, ZOOKEEPER_VERSION, ZooKeeperBroker
from kwire.conformance.bench.load import Address
from kwire.testing import BrokerProcess, ZooKeeperProcess
from kwire.testing.cluster import replicated

COUNT: Final = 3
KWIRE: Final = "kwire"
APACHE: Final = f"Apache Kafka {ZOOKEEPER_VERSION}"

AnyBroker: TypeAlias = BrokerProcess | ZooKeeperBroker


def settings(session_timeout_ms: int) -> dict[str, str]:
    """Return the settings of all brokers of both kinds; all others have their defaults."""
    return {
        **replicated(COUNT),
        "min.insync.replicas": "2",
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        "auto.leader.rebalance.enable": "false",  # no leader moves during a measurement
        "group.initial.rebalance.delay.ms": "0",
    }


class BenchSubject:
    """Three running brokers, by id."""

    def __init__(self, name: str, brokers: Mapping[int, AnyBroker]) -> None:
        self.name = name
        self.brokers = dict(brokers)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def address(self, broker_id: int) -> Address:
        return "127.0.0.1", self.brokers[broker_id].port

    def memory_mb(self) -> tuple[float, float]:
        """PSS and RSS of the three brokers in MB (10^6 bytes), without ZooKeeper."""
        sizes = [_memory_kb(broker.pid) for broker in self.brokers.values()]
        pss, rss = (sum(kilobytes) * 1024 / 1e6 for kilobytes in zip(*sizes, strict=True))
        return pss, rss


def _memory_kb(pid: int) -> tuple[int, int]:
    """Return the PSS and RSS of a process and its children, in kB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pss = rss = 0
    for process_id in (pid, *children):
        text = Path(f"/proc/{process_id}/smaps_rollup").read_text()
        sizes = dict(re.findall(r"^(Pss|Rss):\s+(\d+) kB", text, re.MULTILINE))
        pss += int(sizes["Pss"])
        rss += int(sizes["Rss"])
    return pss, rss


@contextmanager
def running(name: str, directory: Path, session_timeout_ms: int) -> Iterator[BenchSubject]:
    """Start a cluster; at the end, stop it and delete its data."""
    common = settings(session_timeout_ms)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        zookeeper = ZooKeeperProcess(directory / "zookeeper")
        stack.enter_context(zookeeper)
        connect = zookeeper.connect("/bench")
        brokers = {
            broker_id: _create(name, directory, connect, broker_id, common)
            for broker_id in range(1, COUNT + 1)
        }
        for broker in brokers.values():
            stack.callback(broker.kill)  # a clean stop is not needed here
            broker.start()
        yield BenchSubject(name, brokers)


def _create(
    name: str, directory: Path, connect: str, broker_id: int, common: Mapping[str, str]
) -> AnyBroker:
    """Return a broker of this kind that is not started yet; `common` are the cluster's settings."""
    folder = directory / f"broker-{broker_id}"
    if name == APACHE:
        return ZooKeeperBroker(folder, connect, broker_id, settings=common, jvm=SERVER_JVM)
    own = {"broker.id": str(broker_id), "zookeeper.connect": connect}
    return BrokerProcess(folder, {**common, **own})
