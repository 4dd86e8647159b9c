"""Mixed clusters of kwire and Apache Kafka 3.9.2 brokers on one ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.conformance.kraft_cluster import APACHE, KWIRE
from kwire.testing import BrokerProcess, ZooKeeperProcess
from kwire.testing.hosting.ports import free_port
from tests.cluster.mixed.watched import AnyBroker, State, WatchedCluster
from tests.waiting import until, zookeeper_client

__all__ = ["APACHE", "KWIRE", "Mixed", "State", "mixed"]

SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "4",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "120000",  # who stands still for a moment stays a member
}


class Mixed(WatchedCluster):
    """Brokers of the given kinds, with ids from 1 on; none of them runs yet."""

    def __init__(
        self,
        zookeeper: ZooKeeperProcess,
        directory: Path,
        chroot: str,
        kinds: Sequence[str],
        settings: Mapping[str, str],
        disks: Sequence[str],
        own: Callable[[int, int], Mapping[str, str]] = lambda _broker_id, _port: {},
    ) -> None:
        self._own = own
        self._zookeeper, self._chroot = zookeeper, chroot
        self._directory, self._settings, self._disks = directory, settings, disks
        self._brokers = {number: self._made(number, kind) for number, kind in enumerate(kinds, 1)}
        self.brokers = self._brokers
        self.down = {*self.brokers}

    def _made(self, broker_id: int, kind: str, port: int = 0) -> AnyBroker:
        directory, connect = self._directory / str(broker_id), self._zookeeper.connect(self._chroot)
        log_dirs = ",".join(str(directory / disk) for disk in self._disks)
        port = port or free_port()
        settings = {"log.dirs": log_dirs, **self._settings, **self._own(broker_id, port)}
        if kind == APACHE:
            return ZooKeeperBroker(directory, connect, broker_id, port=port, settings=settings)
        own = {"broker.id": str(broker_id), "zookeeper.connect": connect}
        return BrokerProcess(directory, {**settings, **own}, port=port)

    def become(self, broker_id: int, kind: str) -> None:
        """Replace a stopped broker by one of another kind, with the same data, id and port."""
        self._brokers[broker_id] = self._made(broker_id, kind, self.brokers[broker_id].port)

    def lead(self, broker_id: int) -> None:
        """Make this broker the controller: the others are paused during the election."""
        others = [self.brokers[number] for number in self.up if number != broker_id]
        if self.controllers() != {broker_id}:
            for each in others:
                each.pause()
            with zookeeper_client(self._zookeeper.connect(self._chroot)) as client:
                epoch = client.get("/controller_epoch")[0]
                client.delete("/controller")
                until(lambda: client.get("/controller_epoch")[0] != epoch, "elected")
            for each in others:
                each.resume()
        until(lambda: self.controllers() == {broker_id}, f"led by {broker_id}")
        until(lambda: self.members(broker_id) == {*self.up}, "all are there again")

    def controllers(self) -> set[int]:
        """The controller in each broker's Metadata response."""
        return {self._metadata(number).controller_id for number in self.up}


@contextmanager
def mixed(
    zookeeper: ZooKeeperProcess,
    directory: Path,
    chroot: str,
    *kinds: str,
    settings: Mapping[str, str] | None = None,
    later: Sequence[int] = (),
    disks: Sequence[str] = ("data",),
    own: Callable[[int, int], Mapping[str, str]] = lambda _broker_id, _port: {},
) -> Iterator[Mixed]:
    """Running brokers of these kinds, with ids from 1 on, each with `disks` in its directory.

    Those of `later` are left to the test.  `own` are settings by a broker's id and its port.
    """
    given = {**SETTINGS, **(settings or {})}
    cluster = Mixed(zookeeper, directory, chroot, kinds, given, disks, own)
    with ExitStack() as stack:
        # Without a goodbye: what it has to do in a cluster that ends is no part of the test.
        stack.callback(lambda: [broker.kill() for broker in cluster.brokers.values()])
        for number in cluster.brokers.keys() - {*later}:
            cluster.start(number)
        until(lambda: len(cluster.controllers()) == 1, "of one mind on the controller")
        yield cluster
