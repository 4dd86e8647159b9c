"""The tested cluster: its brokers on their hosts, with their own disks and clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from kwire.conformance.chaos.cluster.clock import ShiftedClock
from kwire.conformance.chaos.cluster.network import Network
from kwire.conformance.chaos.disk import Disk, disk_at
from kwire.conformance.wire.peer import Address
from kwire.testing import ClusterProcess, Host, SharedClusterProcess, ZooKeeperProcess


class Ground(NamedTuple):
    """What all rounds share: a network, and a ZooKeeper on the last of its hosts."""

    network: Network
    zookeeper: ZooKeeperProcess

    @property
    def broker_hosts(self) -> list[Host]:
        return self.network.hosts[:-1]


class Members(NamedTuple):
    """The brokers of one round, with their disks and clocks."""

    cluster: ClusterProcess | SharedClusterProcess
    disks: Mapping[int, Disk]
    clocks: Mapping[int, ShiftedClock]

    @property
    def addresses(self) -> tuple[Address, ...]:
        brokers = self.cluster.brokers.values()
        return tuple((broker.host.address, broker.port) for broker in brokers)


@contextmanager
def ground(directory: Path, brokers: int) -> Iterator[Ground]:
    """Start a network with a ZooKeeper in it."""
    with Network(brokers + 1) as network:
        zookeeper = ZooKeeperProcess(directory / "zookeeper", host=network.hosts[-1])
        with zookeeper:
            yield Ground(network, zookeeper)


@contextmanager
def on_zookeeper(
    ground: Ground, directory: Path, chroot: str, settings: Mapping[str, str]
) -> Iterator[Members]:
    """Start brokers and wait until they know each other; at the end they are killed."""
    hosts, clocks = [], {}
    for number, host in enumerate(ground.broker_hosts, 1):
        clocks[number] = ShiftedClock(directory / f"clock-{number}")
        hosts.append(Host(host.address, (*host.launcher, *clocks[number].launcher)))
    cluster = ClusterProcess(
        directory, ground.zookeeper.connect(chroot), len(hosts), settings, hosts=hosts
    )
    with _start_members(cluster) as disks:
        yield Members(cluster, disks, clocks)


@contextmanager
def on_one_machine(directory: Path, brokers: int, settings: Mapping[str, str]) -> Iterator[Members]:
    """Start the brokers of `kwire serve --brokers` with one clock; at the end they are killed."""
    clock = ShiftedClock(directory / "clock")
    cluster = SharedClusterProcess(
        directory, brokers, settings, launcher=clock.launcher, cuttable=True
    )
    with _start_members(cluster) as disks:
        yield Members(cluster, disks, dict.fromkeys(cluster.brokers, clock))


@contextmanager
def _start_members(cluster: ClusterProcess | SharedClusterProcess) -> Iterator[Mapping[int, Disk]]:
    """Start all brokers, each on a data disk of its own, and yield the disks by broker id.

    All brokers are killed at the end.
    """
    with ExitStack() as stack:
        disks = {}
        for number, broker in cluster.brokers.items():
            broker.data_dir.mkdir(parents=True)
            disks[number] = stack.enter_context(disk_at(broker.data_dir))
        stack.callback(cluster.kill)
        cluster.start()
        yield disks
