"""`kwire.testing.ClusterProcess`: brokers on a ZooKeeper, lost and found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster
from kwire.client.inspection.survey import partitions_of
from kwire.client.topics import create_topic
from kwire.testing import BrokerStartError, ClusterProcess, ZooKeeperProcess
from kwire.testing.cluster import _parse_metadata, cluster_view, settings_of_one
from kwire.testing.hosting.ports import free_port
from tests.waiting import until

pytestmark = pytest.mark.slow

BRISK = {"zookeeper.session.timeout.ms": "6000"}
"""How long a broker may be away before the others know."""


def test_killed_broker_leaves_the_cluster_and_returns_after_its_start(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    connect = zookeeper.connect("/come-and-go")
    with ClusterProcess(tmp_path, connect, settings=BRISK, racks="abc") as cluster:
        assert cluster.running == [1, 2, 3]
        with Cluster(cluster.bootstrap, timeout_s=60) as client:
            create_topic(client, "t")
            states = partitions_of([client.retrying(lambda: client.topic("t"))])
            assert [len(state.replica_nodes) for state in states.values()] == [3]
            assert {node.rack for node in client.nodes.values()} == {"a", "b", "c"}
        before = cluster.brokers[1].port

        cluster.brokers[1].kill()
        assert cluster.running == [2, 3]
        assert cluster.wait_until_members() in (2, 3)
        cluster.brokers[1].start()
        assert cluster.brokers[1].port == before
        cluster.wait_until_members()

        cluster.brokers[2].pause()
        assert cluster.wait_until_members([1, 3]) in (1, 3)
        cluster.brokers[2].resume()
        cluster.wait_until_members()

        assert cluster.brokers[3].stop() == 0
        cluster.wait_until_members()
        cluster.start()
        assert cluster.running == [1, 2, 3]
    assert cluster.running == []
    assert all(broker.ended is None for broker in cluster.brokers.values())


def test_clusters_with_different_chroots_are_independent(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    with (
        ClusterProcess(tmp_path / "a", zookeeper.connect("/apart-a"), 1) as first,
        ClusterProcess(tmp_path / "b", zookeeper.connect("/apart-b"), 1) as second,
    ):
        assert first.wait_until_members() == second.wait_until_members() == 1
        assert first.bootstrap != second.bootstrap


def test_start_kills_all_brokers_if_one_does_not_start(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    cluster = ClusterProcess(tmp_path, zookeeper.connect("/none"), 2)
    cluster.brokers[2].settings["num.partitions"] = "many"
    with pytest.raises(BrokerStartError, match=r"num\.partitions"):
        cluster.start()
    assert cluster.running == []


def test_wait_until_members_names_a_broker_that_does_not_answer(
    tmp_path: Path, zookeeper: ZooKeeperProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClusterProcess(tmp_path, zookeeper.connect("/missing"), 1) as cluster:
        monkeypatch.setattr("kwire.testing.cluster.START_TIMEOUT_S", 0.2)
        cluster.brokers[1].kill()
        with pytest.raises(BrokerStartError, match="broker 1 does not answer"):
            cluster.wait_until_members([1])


PARENT = """
import sys, time
from kwire.testing import ClusterProcess

cluster = ClusterProcess(sys.argv[1], sys.argv[2], 2)
cluster.start()
print(*(broker.pid for broker in cluster.brokers.values()), flush=True)
time.sleep(600)
"""


def test_brokers_end_when_their_parent_is_killed(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), zookeeper.connect("/parent")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(each) for each in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    deadline = time.monotonic() + 120
    while any(_lives(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # It may have ended without anybody to hear of it: then it is a zombie.
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()[:1] not in ("", "Z")


def test_metadata_response_is_parsed_to_members_and_controller() -> None:
    reply = bytes.fromhex(
        "00000000 00000002"
        "00000001 0001 61 00002384 ffff"
        "00000003 0002 6262 00002385 0002 7231"
        "00000003 00000000"
    )
    assert _parse_metadata(reply) == (frozenset({1, 3}), 3)
    assert cluster_view(free_port()) is None


def test_each_broker_of_a_cluster_has_the_next_metrics_port() -> None:
    shared = {"metrics.port": "9404", "num.partitions": "3"}
    assert settings_of_one(shared, 2) == {"metrics.port": "9406", "num.partitions": "3"}
    assert settings_of_one({"metrics.port": "0"}, 2) == {"metrics.port": "0"}
    assert settings_of_one({}, 2) == {}


def test_cut_off_broker_leaves_the_cluster_and_returns_after_heal(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    """From the others, where the leader has them leave the ISR; and from ZooKeeper."""
    connect, settings = zookeeper.connect("/cut"), {**BRISK, "replica.lag.time.max.ms": "2000"}
    with ClusterProcess(tmp_path, connect, settings=settings, cuttable=True) as cluster:
        leader = cluster.wait_until_members()
        victim, other = (each for each in cluster.brokers if each != leader)
        with Cluster(cluster.bootstrap, timeout_s=60) as client:
            create_topic(client, "t", assignment=[[leader, victim, other]])
            cluster.cut(victim)
            until(lambda: _in_sync(client) == {leader, other}, "left by the victim")
            until(lambda: cluster_view(cluster.brokers[victim].port), "reached by clients")
            cluster.heal()
            until(lambda: _in_sync(client) == {leader, other, victim}, "joined by the victim")
        cluster.cut_from_zookeeper(victim)
        assert cluster.wait_until_members([leader, other]) in (leader, other)
        cluster.heal()
        cluster.wait_until_members()


def _in_sync(client: Cluster) -> set[int]:
    (state,) = partitions_of([client.retrying(lambda: client.topic("t"))]).values()
    return set(state.isr_nodes)
