"""A full disk has room again: its broker reports its replicas again."""

from __future__ import annotations

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.metadata.changes import CreateTopic, MarkForDeletion
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage, TopicImage
from kwire.cluster.metadata.placement import new_partition
from kwire.settings import BrokerConfig
from tests.cluster.controller.simulation import Cluster

TOPIC = TopicImage("t", b"t" * 16, (new_partition([1, 2]),))
LOG = (TOPIC.id, 0)


def partition_state(cluster: Cluster) -> PartitionImage:
    return cluster.store.image.topics[TOPIC.name].partitions[0]


def settled(cluster: Cluster) -> None:
    assert cluster.term is not None
    busy = True
    while busy:
        cluster.term.see()
        while cluster.term.queue:
            cluster.term.work()
        busy = any([cluster.deliver(cluster.term, each) for each in cluster.brokers])


def led_by_its_last() -> Cluster:
    """A cluster with a partition of which only broker 1 is in sync."""
    cluster = Cluster(3, BrokerConfig({"node.id": "3"}))
    cluster.elect(3)
    assert cluster.term is not None
    cluster.term.take(
        ControllerEffects(decisions=[lambda image: None if image.topics else CreateTopic(TOPIC)])
    )
    settled(cluster)
    cluster.kill(2)
    settled(cluster)
    assert (partition_state(cluster).leader, partition_state(cluster).isr) == (1, (1,))
    return cluster


def test_last_in_sync_replica_leads_again_when_its_disk_has_room() -> None:
    cluster = led_by_its_last()
    cluster.fail_disk(cluster.brokers[1], LOG)
    settled(cluster)
    assert (partition_state(cluster).leader, partition_state(cluster).isr) == (NO_LEADER, (1,))
    cluster.make_room(cluster.brokers[1])
    settled(cluster)
    assert (partition_state(cluster).leader, partition_state(cluster).isr) == (1, (1,))
    assert cluster.brokers[1].hosted["t", 0].leader_epoch == partition_state(cluster).leader_epoch


def test_late_stop_replica_does_not_stop_a_recovered_replica() -> None:
    cluster = led_by_its_last()
    cluster.start(2)
    settled(cluster)
    cluster.propose_isr(("t", 0), [1, 2])
    settled(cluster)
    assert partition_state(cluster).isr == (1, 2)

    follower = cluster.brokers[2]
    cluster.fail_disk(follower, LOG)
    assert cluster.term is not None
    assert cluster.deliver(cluster.term, 2)  # what it answers has it stopped
    cluster.make_room(follower)
    settled(cluster)
    assert ("t", 0) in follower.hosted
    cluster.propose_isr(("t", 0), [1, 2])
    settled(cluster)
    assert partition_state(cluster).isr == (1, 2)


def test_topic_is_deleted_once_every_disk_has_room_again() -> None:
    cluster = led_by_its_last()
    cluster.start(2)
    settled(cluster)
    cluster.fail_disk(cluster.brokers[2], LOG)
    settled(cluster)
    assert cluster.term is not None
    cluster.term.take(
        ControllerEffects(decisions=[lambda _: MarkForDeletion(TOPIC.name, TOPIC.id)])
    )
    cluster.term.work()
    settled(cluster)
    assert TOPIC.name in cluster.store.image.topics
    cluster.make_room(cluster.brokers[2])
    settled(cluster)
    assert TOPIC.name not in cluster.store.image.topics


def test_topic_is_deleted_though_its_disk_filled_just_before_the_replica_was_stopped() -> None:
    """The controller learns of the full disk from StopReplica alone."""
    cluster = led_by_its_last()
    assert cluster.term is not None
    mark = MarkForDeletion(TOPIC.name, TOPIC.id)
    cluster.term.take(
        ControllerEffects(decisions=[lambda image: None if TOPIC.name in image.deleting else mark])
    )
    cluster.start(2)
    cluster.brokers[1].failed.add(LOG)
    settled(cluster)
    assert TOPIC.name in cluster.store.image.topics
    cluster.make_room(cluster.brokers[1])
    settled(cluster)
    assert TOPIC.name not in cluster.store.image.topics
