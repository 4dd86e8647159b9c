"""Brokers of both kinds are killed one after the other, under load from librdkafka and Java."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kwire.client.topics import create_topic, delete_topic
from kwire.conformance.kraft_cluster import APACHE
from tests.cluster.mixed.kraft.java_producer import java_loaded
from tests.cluster.mixed.kraft.stage import ALL, KINDS, SAFE, SPREAD, OnKRaft, on_kraft
from tests.cluster.mixed.watched import Load
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

TOPICS = ("t", "java")
LOG = logging.getLogger(__name__)


@pytest.mark.parametrize("kinds", [*KINDS, (APACHE, APACHE, APACHE)], ids="-".join)
def test_each_broker_is_killed_and_no_record_or_deletion_is_lost(
    kinds: tuple[str, ...], apache_kafka_tools: Path, tmp_path: Path
) -> None:
    """A topic that is deleted while a broker is down is not there when it is back."""
    with on_kraft(tmp_path, *kinds, settings=SAFE) as cluster:
        for topic in TOPICS:
            cluster.create(topic)
        with (
            cluster.loaded("t", 3) as acknowledged,
            java_loaded(cluster, "java", tmp_path) as from_java,
        ):
            for victim in cluster.brokers:
                kill_and_restart(cluster, victim, acknowledged)
        until(lambda: all(cluster.in_sync(topic, ALL) for topic in TOPICS), "in sync")
        for victim in cluster.brokers:
            cluster.all_say(f"gone-{victim}", None)
        cluster.check_values("t", 3, acknowledged)
        cluster.check_values("java", 3, from_java)
        until(lambda: not any(map(cluster.differing, TOPICS)), "equal byte for byte")
        # Apache Kafka keeps what is deleted for a minute, under another name.
        until(lambda: not [*tmp_path.glob("*/data/gone-?-?")], "gone everywhere")


def kill_and_restart(cluster: OnKRaft, victim: int, acknowledged: Load) -> None:
    """Kill a broker, create, delete and write meanwhile, and start it again."""
    gone = f"gone-{victim}"
    with cluster.client(victim) as client:
        create_topic(client, gone, assignment=SPREAD)
    until(lambda: all(cluster.in_sync(topic, ALL) for topic in (*TOPICS, gone)), "in sync")
    acknowledged.take_gap_s()
    cluster.kill(victim)
    others = ALL - {victim}
    until(lambda: all(cluster.in_sync(topic, others) for topic in TOPICS), "led by the others")
    acknowledged.wait_for_more(100)
    LOG.info("kill %s: longest pause %.1f s", victim, acknowledged.take_gap_s())
    with cluster.client(cluster.up[0]) as client:
        delete_topic(client, gone)
    cluster.start(victim)
