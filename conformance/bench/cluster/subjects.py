"""The measured clusters: three brokers of one kind, and where their metadata are kept."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from kwire.conformance import kraft_cluster
from kwire.conformance.apache_kafka import (
    SERVER_JVM,
    VERSION,
    ZOOKEEPER_VERSION,
    ApacheKafka,
    ZooKeeperBroker,
)
from kwire.conformance.bench.load import Address
from kwire.conformance.kraft_cluster import KRaftCluster
from kwire.testing import BrokerProcess, ZooKeeperProcess
from kwire.testing.cluster import replicated
from kwire.testing.sharing import SharedBroker, SharedClusterProcess

COUNT: Final = 3
KWIRE: Final = "kwire"
HEARTBEATS_A_SESSION: Final = 3
"""Heartbeats during a session's timeout: ZooKeeper's clients choose it, Java's and kazoo."""

AnyBroker: TypeAlias = BrokerProcess | SharedBroker | ApacheKafka
Create: TypeAlias = Callable[[int], AnyBroker]
"""Makes the broker with this id, which is not started."""


class BenchSubject:
    """Running brokers, by id; more can be added."""

    def __init__(
        self,
        name: str,
        brokers: Mapping[int, AnyBroker],
        create: Create,
        *,
        has_controller: bool,
        can_grow: bool = True,
    ) -> None:
        """`has_controller`: one of the brokers is the controller, and the others know which.

        `can_grow`: another broker can join while the others run.
        """
        self.name = name
        self.brokers = dict(brokers)
        self.create = create
        self.has_controller = has_controller
        self.can_grow = can_grow

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def address(self, broker_id: int) -> Address:
        return "127.0.0.1", self.brokers[broker_id].port

    def memory_mb(self) -> tuple[float, float]:
        """PSS and RSS of all brokers in MB (10^6 bytes), without the processes that hold their
        metadata."""
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


@dataclass(frozen=True)
class Contest:
    """Clusters of kwire and of Apache Kafka that are measured in turns.

    `store` says where a cluster's metadata are kept.  `nodes` starts that, and yields what makes
    the brokers of the cluster of that name: from its directory and the settings of all brokers.
    `failover_limit_s` is what kwire holds itself to for a client with short backoffs.
    """

    apache: str
    store: str
    has_controller: bool
    settings: Callable[[int], Mapping[str, str]]
    """The settings of brokers for a timeout of their sessions in ms."""
    nodes: Callable[[str, Path, Mapping[str, str]], AbstractContextManager[Create]]
    kwire_has_controller: bool = False
    """Whether one of kwire's brokers is the controller, even if none of Apache Kafka's is."""
    can_grow: bool = True
    failover_limit_s: float | None = None

    @property
    def names(self) -> list[str]:
        return [KWIRE, self.apache]

    @contextmanager
    def running(
        self, name: str, directory: Path, session_timeout_ms: int
    ) -> Iterator[BenchSubject]:
        """Start a cluster; at the end, stop it and delete its data."""
        settings = {**COMMON, **self.settings(session_timeout_ms)}
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            create = stack.enter_context(self.nodes(name, directory, settings))
            has_controller = self.has_controller or (name == KWIRE and self.kwire_has_controller)
            subject = BenchSubject(
                name, {}, create, has_controller=has_controller, can_grow=self.can_grow
            )
            # A clean stop is not needed here.
            stack.callback(lambda: [broker.kill() for broker in subject.brokers.values()])
            for broker_id in range(1, COUNT + 1):
                subject.brokers[broker_id] = broker = create(broker_id)
                broker.start()
            yield subject


COMMON: Final = {
    **replicated(COUNT),
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",  # no leader moves during a measurement
    "group.initial.rebalance.delay.ms": "0",
}
"""The settings of all brokers of all kinds; all others have their defaults."""


def _sessions(session_ms: int) -> Mapping[str, str]:
    """The settings of sessions with a KRaft controller."""
    return {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // HEARTBEATS_A_SESSION),
    }


@contextmanager
def _zookeeper(name: str, directory: Path, settings: Mapping[str, str]) -> Iterator[Create]:
    """Run a ZooKeeper, and yield what makes brokers on it."""
    with ZooKeeperProcess(directory / "zookeeper") as zookeeper:
        connect = zookeeper.connect("/bench")

        def create(broker_id: int) -> AnyBroker:
            folder = directory / f"broker-{broker_id}"
            if name != KWIRE:
                return ZooKeeperBroker(
                    folder, connect, broker_id, settings=settings, jvm=SERVER_JVM
                )
            own = {"broker.id": str(broker_id), "zookeeper.connect": connect}
            return BrokerProcess(folder, {**settings, **own})

        yield create


@contextmanager
def _controller(name: str, directory: Path, settings: Mapping[str, str]) -> Iterator[Create]:
    """Run a controller of Apache Kafka, and yield what makes brokers beside it."""
    kind = kraft_cluster.KWIRE if name == KWIRE else kraft_cluster.APACHE
    cluster = KRaftCluster(directory, [], settings=settings, jvm=SERVER_JVM)
    try:
        cluster.start_controllers()
        yield lambda broker_id: cluster.add(broker_id, kind)
    finally:
        cluster.kill()


@contextmanager
def _alone(name: str, directory: Path, settings: Mapping[str, str]) -> Iterator[Create]:
    """Run `kwire serve --brokers 3`, or a controller of Apache Kafka for its brokers."""
    if name != KWIRE:
        with _controller(name, directory, settings) as create:
            yield create
        return
    with SharedClusterProcess(directory / "kwire", COUNT, settings) as cluster:
        yield lambda broker_id: cluster.brokers[broker_id]


ON_ZOOKEEPER: Final = Contest(
    f"Apache Kafka {ZOOKEEPER_VERSION}",
    "a ZooKeeper of the cluster's own",
    has_controller=True,
    settings=lambda session_ms: {"zookeeper.session.timeout.ms": str(session_ms)},
    nodes=_zookeeper,
)
BESIDE_CONTROLLER: Final = Contest(
    f"Apache Kafka {VERSION}",
    f"a KRaft controller of the cluster's own, of Apache Kafka {VERSION}",
    has_controller=False,
    settings=_sessions,
    nodes=_controller,
)
ALONE: Final = Contest(
    f"Apache Kafka {VERSION}",
    "`kwire serve --brokers 3`, whose brokers have no sessions, and on a KRaft controller",
    has_controller=False,
    settings=_sessions,
    nodes=_alone,
    kwire_has_controller=True,
    can_grow=False,
    failover_limit_s=0.3,
)
