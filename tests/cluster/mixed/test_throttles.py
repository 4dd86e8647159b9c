"""Throttled replication between kwire and Apache Kafka 3.9.2, and cancelled reassignments."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kwire.client.cluster import TopicPartition
from kwire.client.configs import (
    ConfigAlteration,
    ConfigResource,
    ConfigResourceKind,
    Source,
    alter_configs,
    describe_configs,
    topic_settings,
)
from kwire.client.reassignments import alter_reassignments
from kwire.client.throttles import OF_BROKER, OF_TOPIC
from kwire.client.topics import create_topic
from kwire.conformance.apache_kafka import ZOOKEEPER_VERSION, run
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE, Mixed, mixed
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

OURS, THEIRS = 1, 2
BOTH = frozenset((OURS, THEIRS))
REASSIGNMENT = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
RATE = 2_000_000
SIZE = 20_000_000
EVEN = {
    "replica.fetch.max.bytes": "300000",
    "replica.fetch.response.max.bytes": "300000",
    "replica.fetch.wait.max.ms": "50",
    "replica.fetch.backoff.ms": "50",
}
"""Small responses and short pauses: they limit how far one second may be from the rate."""


def made(cluster: Mixed, name: str, broker: int) -> None:
    """Create a topic with one partition of SIZE bytes on one broker."""
    with cluster.client(OURS) as client:
        create_topic(client, name, assignment=[[broker]])
    cluster.all_say(name, [(broker, (broker,), frozenset((broker,)))])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 50_000})
    for _ in range(SIZE // 10_000):
        producer.produce(name, bytes(9_990), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def size_at(cluster: Mixed, broker: int, name: str) -> int:
    directory = cluster.brokers[broker].directory / "data" / f"{name}-0"
    return sum(path.stat().st_size for path in directory.glob("*.log"))


@pytest.mark.parametrize("broker", [OURS, THEIRS])
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_throttled_replication_between_both_kinds_keeps_the_rate(
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
    side: str,
    broker: int,
) -> None:
    """Only `broker` throttles."""
    other = OURS + THEIRS - broker
    source, target = (broker, other) if side == "leader" else (other, broker)
    with mixed(zookeeper, tmp_path, f"/{unique}", KWIRE, APACHE, settings=EVEN) as cluster:
        made(cluster, "t", source)
        with cluster.client(broker) as client:
            # Behind the creation: Apache Kafka takes no throttled replicas from that.
            replicas = {
                f"{side}.replication.throttled.replicas": (ConfigAlteration.SET, f"0:{broker}")
            }
            alter_configs(client, ConfigResource(ConfigResourceKind.TOPIC, "t"), replicas)
            rate = {f"{side}.replication.throttled.rate": (ConfigAlteration.SET, str(RATE))}
            alter_configs(client, ConfigResource(ConfigResourceKind.BROKER, str(broker)), rate)
            until(lambda: rates_of(cluster, broker) == {*rate}, "set")
            assert alter_reassignments(client, {TopicPartition("t", 0): [source, target]}) == {}
        per_second = measured(cluster, target, "t", size_at(cluster, source, "t"))
        assert 0.85 * RATE <= per_second <= 1.15 * RATE
        cluster.all_say("t", [(source, (source, target), BOTH)])


def measured(cluster: Mixed, broker: int, name: str, until_bytes: int) -> float:
    """Bytes per second from the arrival of the first until the last."""
    began, first_bytes, deadline = 0.0, 0, time.monotonic() + PATIENCE_S
    while (size_bytes := size_at(cluster, broker, name)) < until_bytes:
        assert time.monotonic() < deadline, size_bytes
        if size_bytes and not first_bytes:
            began, first_bytes = time.monotonic(), size_bytes
        time.sleep(0.01)
    return (until_bytes - first_bytes) / (time.monotonic() - began)


def rates_of(cluster: Mixed, broker: int) -> set[str]:
    """The throttle rates of a broker, as it reports them."""
    with cluster.client(broker) as client:
        described = describe_configs(
            client, ConfigResource(ConfigResourceKind.BROKER, str(broker)), OF_BROKER
        )
        return {each.name for each in described if each.config_source == Source.DYNAMIC_BROKER}


@pytest.mark.parametrize("controller", [OURS, THEIRS])
def test_throttled_reassignment_is_cancelled_and_later_completed(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str, controller: int
) -> None:
    """Kafka's tool cancels it, later completes it; both remove the throttles."""
    with mixed(zookeeper, tmp_path, f"/{unique}", KWIRE, APACHE, settings=EVEN) as cluster:
        cluster.lead(controller)
        made(cluster, "t", OURS)
        made(cluster, "u", THEIRS)
        plan = tmp_path / "plan.json"
        moves = [
            {"topic": name, "partition": 0, "replicas": [broker]}
            for name, broker in (("t", THEIRS), ("u", OURS))
        ]
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        reassign(cluster, plan, "--execute", "--throttle", "1000000")
        until(lambda: some_of(cluster, THEIRS, "t") and some_of(cluster, OURS, "u"), "begun")
        assert all(rates_of(cluster, broker) == {*OF_BROKER} for broker in BOTH)
        reassign(cluster, plan, "--cancel")
        for name, broker in (("t", OURS), ("u", THEIRS)):
            cluster.all_say(name, [(broker, (broker,), frozenset((broker,)))])
        until(lambda: not size_at(cluster, THEIRS, "t") + size_at(cluster, OURS, "u"), "removed")
        until(lambda: is_unthrottled(cluster), "without throttles")
        reassign(cluster, plan, "--execute", "--throttle", "5000000")
        until(lambda: "is completed" in reassign(cluster, plan, "--verify"), "moved")
        for name, broker in (("t", THEIRS), ("u", OURS)):
            cluster.all_say(name, [(broker, (broker,), frozenset((broker,)))])
            assert len(cluster.read(name, 1, SIZE // 10_000)) == SIZE // 10_000
        assert re.search(r"Clearing broker-level throttles", reassign(cluster, plan, "--verify"))
        until(lambda: is_unthrottled(cluster), "without throttles")


def reassign(cluster: Mixed, plan: Path, *words: str) -> str:
    """Run Kafka's tool; returns its output."""
    asked = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan), *words]
    done = run(REASSIGNMENT, asked, version=ZOOKEEPER_VERSION)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def some_of(cluster: Mixed, broker: int, name: str) -> bool:
    """Whether a reassignment is in progress."""
    return 0 < size_at(cluster, broker, name) < SIZE


def is_unthrottled(cluster: Mixed) -> bool:
    with cluster.client(OURS) as client:
        lists = topic_settings(client, ["t", "u"], OF_TOPIC)
    return not any(any(of.values()) for of in lists.values()) and not any(
        rates_of(cluster, broker) for broker in BOTH
    )
