"""How a leader applies the controller's answers to AlterPartition."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.peers.error import PeerError
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.isr import IsrChanges, IsrProposal, settle
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.cluster.replication.leading.stage import TOPIC_ID, LeaderStage

Answer = AlterPartitionResponse | PeerError | ErrorCode


class ScriptedController:
    """A controller that gives one answer after the other, then none."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[AlterPartitionRequest] = []

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.asked.append(request)
        if not self.answers:
            await trio.sleep_forever()
        answer = self.answers.pop(0)
        if isinstance(answer, PeerError):
            raise answer
        if isinstance(answer, ErrorCode):
            return answered(answer)
        return answer


def answered(error: ErrorCode = ErrorCode.NONE, **fields: Any) -> AlterPartitionResponse:  # noqa: ANN401 - of the answer
    data = {"leader_id": 1, "leader_epoch": 1, "isr": [1, 2, 3], "partition_epoch": 2, **fields}
    partition = ResponsePartitionData(0, error, **(data if not error else {}))
    return AlterPartitionResponse(topics=[ResponseTopicData(TOPIC_ID, [partition])])


async def after(stage: LeaderStage, *answers: Answer) -> ScriptedController:
    """Propose broker 3 for the ISR, and let the controller give these answers."""
    controller = ScriptedController(*answers)
    host = SimpleNamespace(node_id=1, broker_epoch=7, alter_partition=controller.alter_partition)
    changes = IsrChanges(cast(ReplicationContext, host))
    stage.context.changes = changes
    stage.fetch(3, 0, epoch=103)
    assert stage.leading.proposed == (1, 2, 3)
    with trio.move_on_after(1):
        await changes.run()
    return controller


@pytest.fixture
def stage(tmp_path: Path) -> LeaderStage:
    return LeaderStage(tmp_path, isr=(1, 2))


async def test_alter_partition_names_leader_partition_and_broker_epochs(
    stage: LeaderStage, autojump_clock: trio.testing.MockClock
) -> None:
    stage.fetch(2, 0, epoch=102)
    controller = await after(stage)
    [request] = controller.asked
    [partition] = request.topics[0].partitions
    assert (request.broker_id, request.broker_epoch) == (1, 7)
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 1)
    lives = {each.broker_id: each.broker_epoch for each in partition.new_isr_with_epochs}
    assert lives == {1: -1, 2: 102, 3: 103}


@pytest.mark.parametrize("isr", [[1, 2, 3], [1, 3]])
async def test_isr_in_the_controllers_answer_is_applied(
    stage: LeaderStage, isr: list[int], autojump_clock: trio.testing.MockClock
) -> None:
    await after(stage, answered(isr=isr))
    assert (stage.partition.isr, stage.partition.partition_epoch) == (tuple(isr), 2)
    assert stage.leading.proposed is None


async def test_answer_with_the_present_isr_settles_without_a_new_partition_epoch(
    stage: LeaderStage, autojump_clock: trio.testing.MockClock
) -> None:
    await after(stage, answered(partition_epoch=1))
    assert (stage.partition.isr, stage.leading.proposed) == ((1, 2, 3), None)


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
async def test_refused_proposal_leaves_the_committed_isr(
    stage: LeaderStage, error: ErrorCode, autojump_clock: trio.testing.MockClock
) -> None:
    controller = await after(stage, error)
    assert (stage.partition.isr, stage.leading.proposed) == ((1, 2), None)
    assert len(controller.asked) == 1


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
async def test_maximal_isr_counts_while_the_outcome_is_unknown(
    stage: LeaderStage, error: ErrorCode, autojump_clock: trio.testing.MockClock
) -> None:
    controller = await after(stage, error)
    assert stage.leading.proposed == (1, 2, 3)
    assert len(controller.asked) == 1, "the controller will say what holds"
    stage.alive.discard(3)
    stage.append()
    stage.fetch(2, 1)
    assert stage.high_watermark == 0


@pytest.mark.parametrize(
    "failure",
    [
        PeerError("the controller", "no answer"),
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        ErrorCode.NOT_CONTROLLER,
        AlterPartitionResponse(topics=[]),
    ],
)
async def test_proposal_is_sent_again_until_it_is_decided(
    stage: LeaderStage, failure: Answer, autojump_clock: trio.testing.MockClock
) -> None:
    controller = await after(stage, failure, failure, answered())
    assert len(controller.asked) == 3
    assert stage.partition.isr == (1, 2, 3)


async def test_proposal_of_an_earlier_epoch_is_not_sent_again(
    stage: LeaderStage, autojump_clock: trio.testing.MockClock
) -> None:
    def elect() -> None:
        state = PartitionImage(1, 2, 2, (1, 2, 3), (1, 2))
        stage.partition.follow(state)
        stage.leading.follow(state, new_leader=False, new_epoch=True)

    class Elected(ScriptedController):
        async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
            self.asked.append(request)
            elect()
            raise PeerError("the controller", "no answer")

    controller = Elected()
    host = SimpleNamespace(node_id=1, broker_epoch=7, alter_partition=controller.alter_partition)
    changes = IsrChanges(cast(ReplicationContext, host))
    stage.context.changes = changes
    stage.fetch(3, 0)
    with trio.move_on_after(1):
        await changes.run()
    assert len(controller.asked) == 1
    assert (stage.partition.isr, stage.leading.proposed) == ((1, 2), None)


def test_answer_to_an_earlier_proposal_does_not_settle_a_later_one(
    stage: LeaderStage,
) -> None:
    stage.fetch(3, 0)
    earlier = IsrProposal(stage.partition, (1, 2, 3))
    stage.leading.proposed = earlier.isr
    stage.leading.refused()
    stage.leading.proposed = (1, 3)
    assert not earlier.is_current
    settle(earlier, 1, 2, (1, 2, 3))
    assert (stage.partition.isr, stage.leading.proposed) == ((1, 2), (1, 3))


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(0, 2), (2, 2), (1, 0)])
def test_answer_of_other_epochs_is_ignored(
    stage: LeaderStage, leader_epoch: int, partition_epoch: int
) -> None:
    proposal = IsrProposal(stage.partition, (1, 2, 3))
    stage.leading.proposed = proposal.isr
    settle(proposal, leader_epoch, partition_epoch, (1, 2, 3))
    assert stage.partition.isr == (1, 2)
