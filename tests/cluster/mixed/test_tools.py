"""Brokers of kwire's and of Apache Kafka 3.9.2, three in all: its tools, with either as controller,
and brokers that are killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.client.topics import create_topic, delete_topic
from kwire.conformance.apache_kafka import ZOOKEEPER_VERSION, run
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.by_tools import (
    ALL,
    Tool,
    cancel_reassignment,
    elect_uncleanly,
    live_by_tools,
)
from tests.cluster.mixed.clusters import APACHE, KWIRE, Mixed, mixed
from tests.cluster.mixed.watched import Load
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

KINDS = [(KWIRE, APACHE, APACHE), (KWIRE, KWIRE, APACHE)]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_kafka_tools_work_with_either_kind_as_controller(
    kinds: tuple[str, ...],
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
) -> None:
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds) as cluster:
        for controller in (1, 3):
            cluster.lead(controller)
            # What the broker before or after the controller is asked is forwarded, or refused.
            tool = _tool(cluster, 1 + controller % 3)
            live_by_tools(cluster, tool, f"t{controller}", tmp_path)
            cancel_reassignment(cluster, tool, f"c{controller}", tmp_path)


def _tool(cluster: Mixed, asked: int) -> Tool:
    def run_tool(name: str, *arguments: str) -> str:
        words = ["--bootstrap-server", cluster.address(asked), *arguments]
        done = run(name, words, version=ZOOKEEPER_VERSION)
        assert done.returncode == 0, (name, arguments, done.stdout, done.stderr)
        return done.stdout

    return run_tool


BRIEF = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "6000",
    "min.insync.replicas": "1",
}


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_unclean_election_truncates_the_other_replica(
    kinds: tuple[str, ...],
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
) -> None:
    """An out-of-sync replica leads after an administrator's request; the other one truncates."""
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=BRIEF) as cluster:
        for controller, (first, second) in ((1, (2, 3)), (3, (1, 2)), (2, (3, 1))):
            cluster.lead(controller)
            tool = _tool(cluster, controller)
            elect_uncleanly(cluster, tool, f"u{controller}", controller, first, second)


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_each_broker_is_killed_and_no_record_or_deletion_is_lost(
    kinds: tuple[str, ...],
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
) -> None:
    """A deletion of a topic, requested while one of them is down, is not lost either."""
    settings = {
        "zookeeper.session.timeout.ms": "10000",
        "replica.lag.time.max.ms": "10000",
        "min.insync.replicas": "2",
    }
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=settings) as cluster:
        with cluster.client(1) as client:
            create_topic(client, "t", assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
            create_topic(client, "gone", assignment=[[1, 2, 3], [2, 3, 1]])
        with cluster.loaded("t", 3) as acknowledged:
            for victim in (1, 2, 3):
                _outlives(cluster, victim, acknowledged)
        until(lambda: cluster.in_sync("t", ALL), "in sync")
        cluster.all_say("gone", None)
        # Each is there, and once: idempotent, the producer has sent some of them twice.
        assert sorted(cluster.read("t", 3, len(acknowledged))) == sorted(acknowledged)
        until(lambda: cluster.differing("t") == [], "equal byte for byte")
        # Apache Kafka keeps what is deleted for a minute, under another name.
        until(lambda: not [*tmp_path.glob("*/data/gone-?")], "gone everywhere")


def _outlives(cluster: Mixed, victim: int, acknowledged: Load) -> None:
    """A broker is killed and restarts; the others continue meanwhile."""
    until(lambda: cluster.in_sync("t", ALL), "in sync")
    cluster.kill(victim)
    until(lambda: cluster.in_sync("t", ALL - {victim}), "led by the others")
    acknowledged.wait_for_more(100)
    if victim == 1:
        with cluster.client(2) as client:
            delete_topic(client, "gone")
    cluster.start(victim)
