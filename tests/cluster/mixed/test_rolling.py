"""Brokers of kwire and of Apache Kafka 3.9 in one cluster: each dies, and becomes the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.rolling import (
    APACHE,
    KWIRE,
    WAIT_S,
    consume,
    digests,
    mixed,
    produce,
)

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.usefixtures("apache_kafka_libs"),
]


@pytest.mark.parametrize("kinds", [(KWIRE, KWIRE, APACHE), (APACHE, APACHE, KWIRE)], ids="-".join)
def test_each_dies_and_comes_back(
    kinds: tuple[str, ...], zookeeper: ZooKeeperProcess, unique: str, tmp_path: Path
) -> None:
    """kill -9 of one after the other, while records are acknowledged by what is in sync."""
    with mixed(tmp_path, zookeeper.connect(f"/{unique}"), *kinds) as cluster:
        admin = cluster.admin()
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(WAIT_S)
        cluster.wait_until_in_sync("t")
        produce(cluster, "t", 3, range(3000))
        for at, broker in cluster.brokers.items():
            broker.kill()
            produce(cluster, "t", 3, range(at * 3000, (at + 1) * 3000))
            broker.start()
            cluster.wait_until_in_sync("t")
        assert consume(cluster, "t", 3, 12_000) == [*range(12_000)]
        for broker in cluster.brokers.values():
            broker.stop()
        assert all(len(each) == 1 for each in digests(cluster, "t").values())


def test_a_rolling_upgrade_and_back(
    zookeeper: ZooKeeperProcess, unique: str, tmp_path: Path
) -> None:
    """Three Apache Kafka brokers become kwire's one by one, on their data, and again Apache's."""
    connect = zookeeper.connect(f"/{unique}")
    with mixed(tmp_path, connect, APACHE, APACHE, APACHE) as cluster:
        admin = cluster.admin()
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(WAIT_S)
        written = 0
        for kind in (KWIRE, APACHE):
            for broker_id in (1, 2, 3):
                cluster.wait_until_in_sync("t")
                cluster.brokers[broker_id].stop()
                cluster.replace(broker_id, kind)
                produce(cluster, "t", 3, range(written, written + 1500))
                cluster.brokers[broker_id].start()
                produce(cluster, "t", 3, range(written + 1500, written + 3000))
                written += 3000
        cluster.wait_until_in_sync("t")
        assert consume(cluster, "t", 3, written) == [*range(written)]
        for broker in cluster.brokers.values():
            broker.stop()
        assert all(len(each) == 1 for each in digests(cluster, "t").values())
