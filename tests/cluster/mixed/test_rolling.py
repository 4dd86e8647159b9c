"""Brokers of kwire and Apache Kafka 3.9 in one cluster are killed, and replace each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.client.topics import create_topic
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE, Mixed, mixed
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
}


def create(cluster: Mixed, name: str) -> None:
    with cluster.client(1) as client:
        create_topic(client, name, assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    until(lambda: cluster.in_sync(name), "in sync")


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def check_all(cluster: Mixed, name: str, written: int) -> None:
    """Check that each record is there once, and that replicas are equal."""
    assert sorted(cluster.read(name, 3, written)) == sorted(numbers(0, written))
    for broker_id in cluster.brokers:
        cluster.stop(broker_id)
    assert cluster.differing(name) == []


@pytest.mark.parametrize("kinds", [(KWIRE, KWIRE, APACHE), (APACHE, APACHE, KWIRE)], ids="-".join)
def test_each_broker_is_killed_and_no_record_is_lost(
    kinds: tuple[str, ...],
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    unique: str,
    tmp_path: Path,
) -> None:
    """Brokers are killed one after the other, while a producer writes with acks=all."""
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=SETTINGS) as cluster:
        create(cluster, "t")
        cluster.produce("t", numbers(0, 3000), 3)
        for at in cluster.brokers:
            cluster.kill(at)
            cluster.produce("t", numbers(at * 3000, (at + 1) * 3000), 3)
            cluster.start(at)
            until(lambda: cluster.in_sync("t"), "in sync")
        check_all(cluster, "t", 12_000)


def test_rolling_replacement_by_kwire_and_back_loses_no_record(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, unique: str, tmp_path: Path
) -> None:
    """Three Apache Kafka brokers are replaced by kwire one by one, on their data, and back."""
    kinds = (APACHE, APACHE, APACHE)
    with mixed(zookeeper, tmp_path, f"/{unique}", *kinds, settings=SETTINGS) as cluster:
        create(cluster, "t")
        written = 0
        for kind in (KWIRE, APACHE):
            for broker_id in (1, 2, 3):
                until(lambda: cluster.in_sync("t"), "in sync")
                cluster.stop(broker_id)
                cluster.become(broker_id, kind)
                cluster.produce("t", numbers(written, written + 1500), 3)
                cluster.start(broker_id)
                cluster.produce("t", numbers(written + 1500, written + 3000), 3)
                written += 3000
        until(lambda: cluster.in_sync("t"), "in sync")
        check_all(cluster, "t", written)
