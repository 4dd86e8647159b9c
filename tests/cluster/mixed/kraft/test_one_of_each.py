"""A cluster of one kwire and one Apache Kafka 4.4.0 broker, beside a controller of 4.4.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.client.topics import create_topic, delete_topic
from kwire.conformance.kraft_cluster import APACHE, KWIRE
from tests.cluster.mixed.kraft.stage import OnKRaft, on_kraft
from tests.cluster.mixed.topics import life_of_a_topic
from tests.cluster.mixed.watched import Load
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow]

OURS, THEIRS = 1, 2
BOTH = frozenset((OURS, THEIRS))


def test_cluster_of_both_kinds_loses_nothing_when_either_broker_is_killed(
    apache_kafka_libs: Path, tmp_path: Path
) -> None:
    with on_kraft(tmp_path, KWIRE, APACHE) as cluster:
        life_of_a_topic(cluster, "life")
        cluster.create("t", [[OURS, THEIRS], [THEIRS, OURS]])
        with cluster.client(OURS) as client:
            create_topic(client, "gone", assignment=[[OURS, THEIRS], [THEIRS, OURS]])
        with cluster.loaded("t", 2) as acknowledged:
            for victim, other in ((OURS, THEIRS), (THEIRS, OURS)):
                survive(cluster, victim, other, acknowledged)
        until(lambda: cluster.in_sync("t", BOTH), "in sync")
        cluster.all_say("gone", None)
        cluster.check_values("t", 2, acknowledged)
        until(lambda: cluster.differing("t") == [], "equal byte for byte")


def survive(cluster: OnKRaft, victim: int, other: int, acknowledged: Load) -> None:
    """Kill a broker, delete a topic meanwhile, and start the broker when the other one leads."""
    until(lambda: cluster.in_sync("t", BOTH), "in sync")
    cluster.kill(victim)
    until(lambda: cluster.in_sync("t", frozenset((other,))), "led by the other")
    acknowledged.wait_for_more(100)
    if victim == OURS:
        with cluster.client(other) as client:
            delete_topic(client, "gone")
    cluster.start(victim)
