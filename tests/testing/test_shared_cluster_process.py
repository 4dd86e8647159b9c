"""`kwire.testing.SharedClusterProcess`: brokers of one machine, lost and found again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster
from kwire.client.inspection.survey import partitions_of
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.testing import BrokerStartError, SharedClusterProcess
from kwire.testing.cluster import ClusterView, cluster_view

needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0


def test_killed_broker_leaves_the_cluster_and_returns_after_its_start(tmp_path: Path) -> None:
    settings = {"default.replication.factor": "3"}
    with SharedClusterProcess(tmp_path, 3, settings) as cluster:
        assert cluster.running == [1, 2, 3]
        cluster.brokers[2].kill()
        assert cluster.running == [1, 3]
        assert cluster.wait_until_members() in (1, 3)
        cluster.brokers[2].start()
        assert cluster.brokers[2].ended is None
        cluster.wait_until_members([1, 2, 3])
        cluster.brokers[3].pause()
        cluster.brokers[3].resume()
        assert cluster.brokers[1].stop() == 0
        assert cluster.wait_until_members() in (2, 3)
        for _ in range(3):
            cluster.brokers[1].spawn()
            assert cluster.brokers[1].stop() in (0, -signal.SIGTERM), "it has just been started"
        assert cluster.wait_until_members() in (2, 3)
        assert cluster.brokers[1].bootstrap in cluster.bootstrap
    assert cluster.running == []


def test_broker_whose_start_fails_reports_it(tmp_path: Path) -> None:
    with SharedClusterProcess(tmp_path, 2) as cluster:
        broker = cluster.brokers[2]
        broker.kill()
        moved = broker.data_dir.rename(tmp_path / "moved")
        broker.data_dir.write_text("no directory")
        with pytest.raises(BrokerStartError, match="Broker 2 has ended"):
            broker.start()
        assert broker.ended is not None
        assert broker.stop() == 1
        broker.data_dir.unlink()
        moved.rename(broker.data_dir)
        broker.start()
        assert broker.running
        cluster.wait_until_members([1, 2])


@needs_proc
def test_brokers_stop_when_the_metadata_holder_is_lost(tmp_path: Path) -> None:
    with SharedClusterProcess(tmp_path, 2) as cluster:
        cluster.pause_holder()
        cluster.resume_holder()
        cluster.lose_holder()
        assert cluster.running == []
        assert "nobody else could take" not in cluster.log, "nobody is asked to take over"
        with pytest.raises(BrokerStartError, match="is not running"):
            cluster.brokers[1].spawn()
        cluster.start()
        assert cluster.wait_until_members() in (1, 2)


QUICK = {"replica.lag.time.max.ms": "2000", "replica.socket.timeout.ms": "2000"}


@needs_proc
def test_cut_off_broker_leaves_the_cluster_and_returns_after_heal(tmp_path: Path) -> None:
    """Nobody dies of it, for all are connected to the metadata: the leader has it leave the ISR."""
    with (
        SharedClusterProcess(tmp_path, 3, QUICK, cuttable=True) as cluster,
        Cluster(cluster.bootstrap, timeout_s=PATIENCE_S) as client,
    ):
        leader, victim, other = spread_topic(cluster, client)
        cluster.cut(victim)
        until_in_sync(client, {leader, other})
        assert told_by(cluster.brokers[victim].port).members == {1, 2, 3}, "it is alive"
        cluster.heal()
        until_in_sync(client, {leader, other, victim})


@pytest.mark.long
def test_one_way_cut_lasts_through_restarts(tmp_path: Path) -> None:
    """Whoever does not hear the controller is not told."""
    with (
        SharedClusterProcess(tmp_path, 3, QUICK, cuttable=True) as cluster,
        Cluster(cluster.bootstrap, timeout_s=PATIENCE_S) as client,
    ):
        leader, victim, other = spread_topic(cluster, client)
        cluster.cut_one_way(other, leader)
        send(client)  # who has all there is counts as in sync, however long it was not heard of
        until_in_sync(client, {leader, victim})
        cluster.mend_one_way(other, leader)
        until_in_sync(client, {leader, other, victim})

        cluster.brokers[victim].kill()
        cluster.brokers[victim].start()
        until_in_sync(client, {leader, other, victim})
        cluster.cut(victim, leader)
        send(client)
        until_in_sync(client, {leader, other})
        cluster.lose_holder()
        cluster.start()  # a cluster that is started anew has whole lines
        until_in_sync(client, {leader, other, victim})


def told_by(port: int) -> ClusterView:
    """What the broker says to clients, which reach it; it may take longer than one waits."""
    deadline = time.monotonic() + PATIENCE_S
    while (known := cluster_view(port)) is None:
        assert time.monotonic() < deadline
    return known


def spread_topic(cluster: SharedClusterProcess, client: Cluster) -> tuple[int, int, int]:
    """Topic `t` on all three; its leader, which is the controller too, and the others."""
    leader = cluster.wait_until_members()
    victim, other = (each for each in cluster.brokers if each != leader)
    create_topic(client, "t", assignment=[[leader, victim, other]])
    return leader, victim, other


def send(client: Cluster) -> None:
    """One record, acknowledged by all in sync."""
    producer = Producer(client)
    producer.send("t", b"v")
    producer.flush()


def until_in_sync(client: Cluster, brokers: set[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := in_sync(client)) != brokers:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def in_sync(client: Cluster) -> set[int]:
    (state,) = partitions_of([client.retrying(lambda: client.topic("t"))]).values()
    return set(state.isr_nodes)
