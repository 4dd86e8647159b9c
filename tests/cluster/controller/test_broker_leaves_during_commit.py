"""A broker leaves between a decision that includes it and the commit of that decision."""

from __future__ import annotations

import pytest

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.metadata.changes import CreateTopic
from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.cluster.metadata.placement import new_partition
from kwire.settings import BrokerConfig
from tests.cluster.controller.simulation import Cluster

PARTITION = ("t", 0)


def partition_state(cluster: Cluster) -> PartitionImage:
    return cluster.store.image.topics[PARTITION[0]].partitions[PARTITION[1]]


def commit(cluster: Cluster) -> None:
    assert cluster.term is not None
    while cluster.term.queue:
        cluster.term.work()


@pytest.fixture
def cluster() -> Cluster:
    """A cluster of three brokers, of which broker 3 is no longer in sync."""
    cluster = Cluster(3, BrokerConfig({"node.id": "1"}))
    term = cluster.term
    assert term is not None
    topic = TopicImage(PARTITION[0], b"t" * 16, (new_partition([1, 2, 3]),))
    term.take(
        ControllerEffects(decisions=[lambda image: None if image.topics else CreateTopic(topic)])
    )
    cluster.settle(anew=False)
    cluster.propose_isr(PARTITION, [1, 2])
    commit(cluster)
    assert partition_state(cluster).isr == (1, 2)
    return cluster


def test_broker_that_left_while_joining_the_isr_is_removed_again(cluster: Cluster) -> None:
    assert cluster.term is not None
    cluster.propose_isr(PARTITION, [1, 2, 3])
    cluster.term.work(meanwhile=lambda: cluster.kill(3))
    assert partition_state(cluster).isr == (1, 2, 3), "committed as it was decided"
    before = partition_state(cluster).leader_epoch
    commit(cluster)
    assert partition_state(cluster).isr == (1, 2)
    assert partition_state(cluster).leader_epoch > before, "else its leader is not told"


def test_broker_that_restarted_while_joining_the_isr_is_removed_again(cluster: Cluster) -> None:
    def goes_and_comes() -> None:
        cluster.kill(3)
        cluster.start(3)

    assert cluster.term is not None
    cluster.propose_isr(PARTITION, [1, 2, 3])
    cluster.term.work(meanwhile=goes_and_comes)
    commit(cluster)
    assert partition_state(cluster).isr == (1, 2)
