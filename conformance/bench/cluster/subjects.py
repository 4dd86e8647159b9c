"""The clusters that are measured: three brokers of one kind, and their ZooKeeper."""

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
    """Of all brokers of both kinds; all else is as it is by default."""
    return {
        **replicated(COUNT),
        "min.insync.replicas": "2",
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        "auto.leader.rebalance.enable": "false",  # nothing moves while something is measured
        "group.initial.rebalance.delay.ms": "0",
    }


class Subject:
    """Three brokers by their ids, which run."""

    def __init__(self, name: str, brokers: Mapping[int, AnyBroker]) -> None:
        self.name = name
        self.brokers = dict(brokers)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def address(self, broker_id: int) -> Address:
        return "127.0.0.1", self.brokers[broker_id].port

    def memory_mb(self) -> tuple[float, float]:
        """PSS and RSS of the three in MB of 10^6 bytes, ZooKeeper's not counted."""
        sizes = [_memory_kb(broker.pid) for broker in self.brokers.values()]
        pss, rss = (sum(each) * 1024 / 1e6 for each in zip(*sizes, strict=True))
        return pss, rss


def _memory_kb(pid: int) -> tuple[int, int]:
    """PSS and RSS of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pss = rss = 0
    for each in (pid, *children):
        told = Path(f"/proc/{each}/smaps_rollup").read_text()
        sizes = dict(re.findall(r"^(Pss|Rss):\s+(\d+) kB", told, re.MULTILINE))
        pss += int(sizes["Pss"])
        rss += int(sizes["Rss"])
    return pss, rss


@contextmanager
def running(name: str, directory: Path, session_timeout_ms: int) -> Iterator[Subject]:
    """A cluster that lives as long as the block, and leaves nothing behind."""
    common = settings(session_timeout_ms)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        zookeeper = ZooKeeperProcess(directory / "zookeeper")
        stack.enter_context(zookeeper)
        connect = zookeeper.connect("/bench")
        brokers = {each: _made(name, directory, connect, each, common) for each in range(1, 4)}
        for broker in brokers.values():
            stack.callback(broker.kill)  # without a goodbye, which nobody measures here
            broker.start()
        yield Subject(name, brokers)


def _made(
    name: str, directory: Path, connect: str, broker_id: int, common: Mapping[str, str]
) -> AnyBroker:
    folder = directory / f"broker-{broker_id}"
    if name == APACHE:
        return ZooKeeperBroker(folder, connect, broker_id, settings=common, jvm=SERVER_JVM)
    own = {"broker.id": str(broker_id), "zookeeper.connect": connect}
    return BrokerProcess(folder, {**common, **own})
