"""Transactions and groups of a mixed cluster, while their coordinators are killed."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from kwire.client.topics import create_topic
from kwire.groups.java import partition_for
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE, Mixed, mixed
from tests.cluster.mixed.copying import copying
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "6000",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
}
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
COUNT = 3000


@pytest.mark.parametrize("kinds", [(KWIRE, KWIRE, APACHE), (APACHE, APACHE, KWIRE)], ids="-".join)
def test_coordinators_are_killed_and_brokers_of_the_other_kind_take_over(
    kinds: tuple[str, ...],
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    unique: str,
    tmp_path: Path,
) -> None:
    """Runs until transactions and groups have moved from each kind to a broker of the other."""
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=SETTINGS) as cluster:
        values = [str(number) for number in range(COUNT)]
        with cluster.client(1) as client:
            create_topic(client, "in", assignment=[[1, 2, 3]])
            create_topic(client, "out", assignment=[[1, 2, 3]])
        cluster.produce("in", values, 1)
        with copying(cluster, "in", "out", COUNT) as job:
            for topic, key in ((STATE, "in"), (OFFSETS, "in-group")) * 3:
                if not job.done():
                    _kill_coordinator(cluster, topic, key, job)
        assert cluster.read("out", 1, COUNT) == values
        until(lambda: all(map(cluster.in_sync, ("in", "out", STATE, OFFSETS))), "in sync")
        for broker_id in cluster.brokers:
            cluster.stop(broker_id)
        assert [cluster.differing(topic) for topic in ("in", "out")] == [[], []]


def _kill_coordinator(cluster: Mixed, topic: str, key: str, job: Future[int]) -> None:
    """Restart it when another coordinator has taken over and done some work."""
    until(lambda: cluster.topic(cluster.up[0], topic), f"{topic} there")
    until(lambda: cluster.in_sync(topic), f"{topic} in sync")
    known = cluster.topic(1, topic)
    assert known is not None
    victim = known[partition_for(key, len(known))][0]
    cluster.kill(victim)
    until(lambda: cluster.in_sync(topic, frozenset(cluster.up)), "led by the others")
    before = cluster.end("out", 0)
    until(lambda: job.done() or cluster.end("out", 0) > before + 50, "copied meanwhile")
    cluster.start(victim)
