"""Questions of an operator about a cluster that has lost a broker, answered by its metrics."""

from __future__ import annotations

import pytest

from tests.operations.scenes import BrokenCluster

pytestmark = pytest.mark.slow

CONTROLLER = "kafka_controller_kafkacontroller_"


def test_is_a_broker_down(lost: BrokenCluster) -> None:
    """The controller counts the brokers; the others give 0."""
    assert lost.before.sums(f"{CONTROLLER}activebrokercount", [])[()] == 3
    assert lost.after.sums(f"{CONTROLLER}activebrokercount", [])[()] == 2
    assert lost.after.sums(f"{CONTROLLER}fencedbrokercount", [])[()] == 1


def test_who_is_the_controller(lost: BrokenCluster) -> None:
    for scrape in (lost.before, lost.after):
        assert scrape.sums(f"{CONTROLLER}activecontrollercount", [])[()] == 1


def test_which_partitions_have_no_leader(lost: BrokenCluster) -> None:
    offline = [value for _, value in lost.after.series(f"{CONTROLLER}offlinepartitionscount")]
    assert max(offline) == lost.single.partitions


def test_which_partitions_are_under_replicated(lost: BrokenCluster) -> None:
    found = lost.after.sums("kafka_cluster_partition_underreplicated", ["topic", "partition"])
    under = {place for place, value in found.items() if value}
    assert {topic for topic, _ in under} >= {lost.tripled.name}
    assert lost.single.name not in {topic for topic, _ in under}


def test_which_brokers_lead_more_than_before(lost: BrokenCluster) -> None:
    """The two that are left lead what the third one led."""
    before = [value for _, value in lost.before.series("kafka_server_replicamanager_leadercount")]
    after = [value for _, value in lost.after.series("kafka_server_replicamanager_leadercount")]
    assert len(before) == len(after) + 1
    assert sum(after) == sum(before) - lost.single.partitions
    assert max(after) > max(before)
