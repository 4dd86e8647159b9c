"""Deletion of topics while brokers leave and start."""

from __future__ import annotations

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.metadata.changes import CreateTopic, Decision, MarkForDeletion
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import TopicImage
from kwire.settings import BrokerConfig
from tests.cluster.controller.simulation import Cluster

TOPIC = TopicImage("t", b"t" * 16, (unassigned_partition((1,)), unassigned_partition((2,))))


def decide(cluster: Cluster, decision: Decision) -> None:
    """Do all steps; live brokers obey their requests."""
    assert cluster.term is not None
    cluster.term.take(ControllerEffects(decisions=[decision]))
    work(cluster)


def work(cluster: Cluster) -> None:
    assert cluster.term is not None
    cluster.term.see()
    while cluster.term.queue:
        cluster.term.work()
    for broker in cluster.live:
        while cluster.deliver(cluster.term, broker):
            pass


def test_deleted_replica_is_not_recreated_when_its_broker_restarts() -> None:
    cluster = Cluster(3, BrokerConfig({"node.id": "1"}))
    cluster.elect(3)
    decide(cluster, lambda _: CreateTopic(TOPIC))
    assert cluster.brokers[1].logs == {(TOPIC.id, 0): TOPIC.name}
    cluster.kill(2)
    decide(cluster, lambda _: MarkForDeletion("t", TOPIC.id))
    assert cluster.brokers[1].logs == {}
    assert "t" in cluster.store.image.topics  # broker 2 has a replica that is to go
    cluster.start(1)
    work(cluster)
    assert cluster.brokers[1].logs == {}
    cluster.start(2)
    work(cluster)
    work(cluster)
    assert cluster.store.image.topics.keys() == set()
