"""Who may join an ISR beside KRaft controllers, and how the leader asks them for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import wait_all_tasks_blocked

from kwire.cluster.peers.error import PeerError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionResponse,
    BrokerState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kwire.log import LogError
from tests.cluster.replication.roles.stage import EPOCH, TOPIC_ID, RolesStage, roles, state


def lead_alone(stage: RolesStage) -> None:
    """Broker 1 leads partition 0, and brokers 2 and 3 are not in sync."""
    stage.place(state(1, (1, 2, 3), isr=(1,), epoch=4, partition_epoch=9))


def answer(
    error: ErrorCode = ErrorCode.NONE, *, isr: tuple[int, ...] = (), partition_epoch: int = 10
) -> AlterPartitionResponse:
    partition = ResponsePartitionData(
        0, error, leader_id=1, leader_epoch=4, isr=list(isr), partition_epoch=partition_epoch
    )
    return AlterPartitionResponse(topics=[ResponseTopicData(TOPIC_ID, [partition])])


async def test_follower_in_its_present_registration_is_proposed(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.fetched_by(2, 0)
        assert stage.proposed == (1, 2)


async def test_follower_that_names_no_broker_epoch_is_proposed(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.fetched_by(2, 0, broker_epoch=-1)
        assert stage.proposed == (1, 2)


async def test_follower_is_not_proposed_before_the_metadata_have_its_registration(
    tmp_path: Path,
) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.fetched_by(2, 0, broker_epoch=150)
        assert stage.proposed is None
        stage.change_broker(2, epoch=150)
        stage.fetched_by(2, 0, broker_epoch=150)
        assert stage.proposed == (1, 2)


async def test_fetch_of_an_earlier_registration_is_refused_and_no_progress(tmp_path: Path) -> None:
    """It may have been sent before a crash in which the follower lost records."""
    async with roles(tmp_path) as stage:
        stage.place(state(1))
        stage.append()
        stage.change_broker(2, epoch=150)
        with pytest.raises(LogError) as refused:
            stage.fetched_by(2, 1, broker_epoch=102)
        assert refused.value.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert stage.partition().high_watermark == 0
        stage.fetched_by(2, 1, broker_epoch=150)
        assert stage.partition().high_watermark == 1


async def test_fenced_follower_is_not_proposed(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.fence(2)
        stage.fetched_by(2, 0)
        assert stage.proposed is None


async def test_follower_in_a_controlled_shutdown_is_not_proposed(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.change_broker(2, is_leaving=True)
        stage.fetched_by(2, 0)
        assert stage.proposed is None


async def test_high_watermark_waits_for_no_follower_that_may_not_join(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        stage.place(state(1))
        stage.fetched_by(2, 0)
        stage.append()
        stage.change(isr=(1,))
        assert stage.partition().high_watermark == 0  # broker 2 is about to join again
        stage.change_broker(2, is_leaving=True)
        stage.append()
        assert stage.partition().high_watermark == 2


async def test_high_watermark_stays_below_min_insync_replicas(tmp_path: Path) -> None:
    """Else an eligible leader replica might lack a committed record (KIP-966)."""
    async with roles(tmp_path, settings={"min.insync.replicas": "2"}) as stage:
        stage.place(state(1))
        stage.append()
        stage.change(isr=(1,))
        stage.fence(2)
        stage.append()
        assert stage.partition().high_watermark == 0
        stage.change(isr=(1, 2))
        stage.fetched_by(2, 2)
        assert stage.partition().high_watermark == 2


async def test_high_watermark_advances_if_there_are_fewer_replicas_than_min_insync_replicas(
    tmp_path: Path,
) -> None:
    async with roles(tmp_path, settings={"min.insync.replicas": "3"}) as stage:
        stage.place(state(1))
        stage.append()
        stage.fetched_by(2, 1)
        assert stage.partition().high_watermark == 1


# -- AlterPartition


async def test_alter_partition_names_epochs_of_brokers_leader_and_partition(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.fetched_by(2, 0)
        await wait_all_tasks_blocked()
        [request] = stage.channel.asked
        assert (request.broker_id, request.broker_epoch) == (1, EPOCH)
        [asked] = request.topics[0].partitions
        assert (asked.leader_epoch, asked.partition_epoch) == (4, 9)
        assert asked.new_isr_with_epochs == [BrokerState(1, EPOCH), BrokerState(2, 102)]


async def test_alter_partition_names_the_isr_by_rising_broker_ids(tmp_path: Path) -> None:
    """As Apache Kafka's leaders do: the metadata records keep the order."""
    async with roles(tmp_path) as stage:
        stage.place(state(1, replicas=(3, 1, 2), isr=(3, 1)))
        stage.fetched_by(2, 0)
        await wait_all_tasks_blocked()
        [request] = stage.channel.asked
        [asked] = request.topics[0].partitions
        assert [member.broker_id for member in asked.new_isr_with_epochs] == [1, 2, 3]


async def test_recovering_leader_reports_that_it_has_recovered(tmp_path: Path) -> None:
    """The controller takes no other in-sync replica before (KIP-704)."""
    async with roles(tmp_path) as stage:
        stage.place(state(1, isr=(1,), recovering=True))
        stage.fetched_by(2, 0)
        await wait_all_tasks_blocked()
        [request] = stage.channel.asked
        assert request.topics[0].partitions[0].leader_recovery_state == 0


async def test_isr_that_the_controller_committed_holds_before_the_metadata_have_it(
    tmp_path: Path,
) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.fetched_by(2, 0)
        await wait_all_tasks_blocked()
        await stage.channel.answer(answer(isr=(1, 2)))
        assert (stage.partition().isr, stage.partition().partition_epoch) == ((1, 2), 10)
        stage.change(isr=(1, 2))
        assert (stage.partition().isr, stage.partition().partition_epoch) == ((1, 2), 10)


async def test_answer_after_the_metadata_had_a_later_state_changes_nothing(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.fetched_by(2, 0)
        await wait_all_tasks_blocked()
        stage.change(isr=(1, 2))
        stage.change(isr=(1,))
        await stage.channel.answer(answer(isr=(1, 2)))
        assert (stage.partition().isr, stage.partition().partition_epoch) == ((1,), 11)


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION])
async def test_refused_isr_counts_until_the_metadata_say_what_holds(
    tmp_path: Path, error: ErrorCode
) -> None:
    async with roles(tmp_path) as stage:
        lead_alone(stage)
        stage.fetched_by(2, 0)
        await wait_all_tasks_blocked()
        await stage.channel.answer(answer(error))
        assert stage.proposed == (1, 2)
        stage.append()
        assert stage.partition().high_watermark == 0
        stage.fence(2)
        stage.change(isr=(1,), partition_epoch=11)
        assert stage.partition().high_watermark == 1


async def test_no_broker_is_asked_for_what_controllers_do(tmp_path: Path) -> None:
    async with roles(tmp_path) as stage:
        with pytest.raises(PeerError):
            stage.context.controller()
