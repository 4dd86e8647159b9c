"""Brokers that leave and return under one controller: what they lead, and what waits for them."""

from __future__ import annotations

import pytest

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.elections import PREFERRED
from kwire.cluster.metadata.changes import CreateTopic, MarkForDeletion
from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.cluster.metadata.placement import new_partition
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import AlterPartitionResponse
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kwire.settings import BrokerConfig
from tests.cluster.controller.requests import alter_partition, elect
from tests.cluster.controller.simulation import Cluster, Term

TOPIC = TopicImage("t", b"t" * 16, (new_partition([1, 2]), new_partition([2, 1])))
PARTITION, SECOND = ("t", 0), ("t", 1)
CONTROLLER = 3


def partition_state(
    cluster: Cluster, topic_partition: tuple[str, int] = PARTITION
) -> PartitionImage:
    return cluster.store.image.topics[topic_partition[0]].partitions[topic_partition[1]]


def term_of(cluster: Cluster) -> Term:
    assert cluster.term is not None
    return cluster.term


def work(cluster: Cluster) -> None:
    """Commit all decisions; live brokers obey their requests."""
    term, busy = term_of(cluster), True
    while busy:
        term.see()
        while term.queue:
            term.work()
        busy = any([cluster.deliver(term, each) for each in cluster.live])


def shut_down(cluster: Cluster, broker_id: int, *, epoch: int | None = None) -> ErrorCode:
    epoch = cluster.brokers[broker_id].epoch if epoch is None else epoch
    replies: list[ControlledShutdownResponse] = []
    request = ControlledShutdownRequest(broker_id, epoch)
    term_of(cluster).take(term_of(cluster).machine.controlled_shutdown(request), replies.append)
    while term_of(cluster).queue:
        term_of(cluster).work()
    return ErrorCode(replies[0].error_code)


def proposed(cluster: Cluster, leader: int, isr: list[int]) -> ErrorCode:
    """The answer to a leader that proposes an ISR in its current epochs."""
    local, replies = cluster.brokers[leader].hosted[PARTITION], list[AlterPartitionResponse]()
    request = alter_partition(leader, cluster.brokers[leader].epoch, 0, local, isr)
    term_of(cluster).take(term_of(cluster).machine.alter_partition(request), replies.append)
    while term_of(cluster).queue:
        term_of(cluster).work()
    answer = replies[0].topics[0].partitions[0]
    if not answer.error_code:
        local.isr, local.partition_epoch = tuple(answer.isr), answer.partition_epoch
    return ErrorCode(answer.error_code)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(3, BrokerConfig({"node.id": str(CONTROLLER)}))
    cluster.elect(CONTROLLER)
    term_of(cluster).take(
        ControllerEffects(decisions=[lambda image: None if image.topics else CreateTopic(TOPIC)])
    )
    work(cluster)
    return cluster


def leads_again(cluster: Cluster, broker_id: int) -> bool:
    """Whether a broker joins the ISR again and can be elected for its partition."""
    other = 3 - broker_id
    for topic_partition in (PARTITION, SECOND):
        cluster.propose_isr(topic_partition, [broker_id, other])
    work(cluster)
    machine = term_of(cluster).machine
    term_of(cluster).take(machine.elect_leaders(elect(PREFERRED, PARTITION, SECOND)))
    work(cluster)
    return (partition_state(cluster).leader, partition_state(cluster, SECOND).leader) == (1, 2)


def test_restarted_broker_leads_again(cluster: Cluster) -> None:
    cluster.kill(1)
    work(cluster)
    assert (partition_state(cluster).leader, partition_state(cluster).isr) == (2, (2,))
    cluster.start(1)
    work(cluster)
    assert leads_again(cluster, 1)


def test_broker_leads_again_after_it_was_shut_down_and_restarted(cluster: Cluster) -> None:
    assert shut_down(cluster, 1) == ErrorCode.NONE
    work(cluster)
    assert (partition_state(cluster).leader, partition_state(cluster).isr) == (2, (2,))
    cluster.start(1)
    work(cluster)
    assert leads_again(cluster, 1)


def test_broker_leads_again_after_its_disk_was_replaced_and_it_restarted(
    cluster: Cluster,
) -> None:
    cluster.fail_disk(cluster.brokers[1], (TOPIC.id, 0))
    work(cluster)
    assert partition_state(cluster).leader == 2
    cluster.kill(1)
    work(cluster)
    cluster.brokers[1].failed.clear()
    cluster.start(1)
    work(cluster)
    assert leads_again(cluster, 1)


def test_broker_that_restarts_unnoticed_is_sent_what_it_leads(
    cluster: Cluster,
) -> None:
    before = partition_state(cluster).leader_epoch
    cluster.start(1)
    work(cluster)
    assert partition_state(cluster).leader_epoch > before
    assert partition_state(cluster).isr == (2,), "what it has in this life is not known yet"
    assert leads_again(cluster, 1)


def test_last_member_of_the_isr_leads_when_it_comes_back(cluster: Cluster) -> None:
    cluster.kill(2)
    work(cluster)
    cluster.kill(1)
    work(cluster)
    assert (partition_state(cluster).leader, partition_state(cluster).isr) == (-1, (1,))
    cluster.start(2)
    work(cluster)
    assert partition_state(cluster).leader == -1, "it may lack what the other has"
    cluster.start(1)
    work(cluster)
    assert (partition_state(cluster).leader, partition_state(cluster).isr) == (1, (1,))
    assert cluster.brokers[1].hosted[PARTITION].leader == 1


def test_broker_that_shuts_down_does_not_join_the_isr(cluster: Cluster) -> None:
    assert shut_down(cluster, 2) == ErrorCode.NONE
    work(cluster)
    assert partition_state(cluster).isr == (1,)
    assert proposed(cluster, 1, [1, 2]) == ErrorCode.INELIGIBLE_REPLICA
    assert partition_state(cluster).isr == (1,)
    assert partition_state(cluster, SECOND).isr == (1,)
    assert PARTITION in cluster.brokers[2].hosted or partition_state(cluster).leader == 1


def test_broker_that_shuts_down_stops_following(cluster: Cluster) -> None:
    """Otherwise leaders would keep it in sync as long as it fetches."""
    shut_down(cluster, 2)
    work(cluster)
    assert PARTITION not in cluster.brokers[2].hosted
    assert cluster.brokers[2].hosted[SECOND].leader == 1, "what it led it knows to be led elsewhere"


def test_broker_that_shuts_down_does_not_lead_leaderless_partitions(cluster: Cluster) -> None:
    shut_down(cluster, 2)
    work(cluster)
    cluster.kill(1)
    work(cluster)
    assert (partition_state(cluster).leader, partition_state(cluster).isr) == (-1, (1,))


@pytest.mark.parametrize(("behind", "error"), [(0, 0), (1, ErrorCode.STALE_BROKER_EPOCH)])
def test_controlled_shutdown_of_an_earlier_epoch_is_stale(
    cluster: Cluster, behind: int, error: int
) -> None:
    epoch = cluster.brokers[2].epoch - behind
    assert shut_down(cluster, 2, epoch=epoch) == error
    assert (2 in term_of(cluster).machine.state.shutting_down) == (not error)


def test_controlled_shutdown_of_an_unregistered_broker_is_refused(cluster: Cluster) -> None:
    cluster.kill(2)
    work(cluster)
    assert shut_down(cluster, 2) == ErrorCode.BROKER_NOT_AVAILABLE


def test_broker_that_restarted_during_its_shutdown_stays_in_the_isr(cluster: Cluster) -> None:
    """Half of the shutdown was decided for an epoch that has ended."""
    term = term_of(cluster)
    request = ControlledShutdownRequest(2, cluster.brokers[2].epoch)
    effects = term.machine.controlled_shutdown(request)
    cluster.start(2)
    work(cluster)
    assert leads_again(cluster, 2)
    before = partition_state(cluster), partition_state(cluster, SECOND)
    term.take(effects)
    work(cluster)
    assert (partition_state(cluster), partition_state(cluster, SECOND)) == before


def test_isr_is_changed_only_by_its_leader_in_its_current_epoch(cluster: Cluster) -> None:
    local = cluster.brokers[1].hosted[PARTITION]
    replies: list[AlterPartitionResponse] = []
    machine = term_of(cluster).machine
    for broker_id, epoch in [(2, 0), (1, -1)]:
        request = alter_partition(
            broker_id, cluster.brokers[broker_id].epoch + epoch, 0, local, [broker_id]
        )
        term_of(cluster).take(machine.alter_partition(request), replies.append)
        work(cluster)
    assert replies[0].topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert replies[1].error_code == ErrorCode.STALE_BROKER_EPOCH
    assert partition_state(cluster).isr == (1, 2)


def test_isr_change_names_the_next_partition_epoch_and_keeps_the_leader_epoch(
    cluster: Cluster,
) -> None:
    before = partition_state(cluster)
    assert proposed(cluster, 1, [1]) == ErrorCode.NONE
    after = partition_state(cluster)
    assert (after.isr, after.leader_epoch) == ((1,), before.leader_epoch)
    assert after.partition_epoch == before.partition_epoch + 1


# -- deletions


def delete(cluster: Cluster) -> None:
    term_of(cluster).take(
        ControllerEffects(decisions=[lambda _: MarkForDeletion(TOPIC.name, TOPIC.id)])
    )
    term_of(cluster).work()
    term_of(cluster).see()


def test_topic_is_deleted_although_a_broker_died_before_it_answered(cluster: Cluster) -> None:
    delete(cluster)
    while cluster.deliver(term_of(cluster), 1):
        pass
    cluster.kill(2)
    work(cluster)
    assert TOPIC.name in cluster.store.image.topics
    cluster.start(2)
    work(cluster)
    assert TOPIC.name not in cluster.store.image.topics


def test_topic_deletion_waits_for_a_replica_on_a_failed_disk(cluster: Cluster) -> None:
    cluster.fail_disk(cluster.brokers[2], (TOPIC.id, 0))
    delete(cluster)
    work(cluster)
    assert TOPIC.name in cluster.store.image.topics
    cluster.make_room(cluster.brokers[2])
    work(cluster)
    assert TOPIC.name not in cluster.store.image.topics


def test_new_controller_deletes_nothing_while_a_replica_is_offline(cluster: Cluster) -> None:
    cluster.kill(2)
    work(cluster)
    delete(cluster)
    cluster.elect(CONTROLLER)
    work(cluster)
    assert cluster.brokers[1].logs, "no half of a topic goes"
    cluster.start(2)
    work(cluster)
    assert TOPIC.name not in cluster.store.image.topics
    assert not cluster.brokers[1].logs
    assert not cluster.brokers[2].logs
