"""How a leader applies the controller's answers to AlterPartition."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.peers.error import PeerError
from kwire.cluster.replication import isr as isr_module
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.isr import IsrChanges, IsrProposal, settle
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.leading.stage import TOPIC_ID, LeaderStage

Answer = AlterPartitionResponse | PeerError | ErrorCode


class ScriptedController:
    """A controller that gives one answer after the other, then none."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[AlterPartitionRequest] = []

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
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


def host_of(controller: Any) -> SimpleNamespace:  # noqa: ANN401 - whoever answers AlterPartition
    """A broker of epoch 7, as IsrChanges sees it."""
    return SimpleNamespace(
        node_id=1, broker_epoch=7, own_isr_epoch=-1, alter_partition=controller.alter_partition
    )


async def after(stage: LeaderStage, *answers: Answer) -> ScriptedController:
    """Propose broker 3 for the ISR, and let the controller give these answers."""
    controller = ScriptedController(*answers)
    host = host_of(controller)
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
    [request] = controller.requests
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
    assert len(controller.requests) == 1


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
    assert len(controller.requests) == 1, "the controller will say what holds"
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
    assert len(controller.requests) == 3
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
            self.requests.append(request)
            elect()
            raise PeerError("the controller", "no answer")

    controller = Elected()
    host = host_of(controller)
    changes = IsrChanges(cast(ReplicationContext, host))
    stage.context.changes = changes
    stage.fetch(3, 0)
    with trio.move_on_after(1):
        await changes.run()
    assert len(controller.requests) == 1
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


# -- several proposals, and when they are sent


class TimedController(ScriptedController):
    """Notes when it is asked, in seconds from the first request."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(*answers)
        self.times_s: list[float] = []

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.times_s.append(trio.current_time())
        return await super().alter_partition(request)

    @property
    def pauses_s(self) -> list[float]:
        return [round(later - earlier, 6) for earlier, later in itertools.pairwise(self.times_s)]


def changes_of(controller: ScriptedController) -> IsrChanges:
    host = host_of(controller)
    return IsrChanges(cast(ReplicationContext, host))


class Proposing:
    """Stands in for a partition that this broker leads and whose ISR it proposes to change."""

    def __init__(self, topic_id: bytes, index: int) -> None:
        self.topic, self.topic_id, self.index = "t", topic_id, index
        self.leader_epoch, self.partition_epoch = 4, 10 + index
        self.isr: tuple[int, ...] = (1,)
        self.node_id = 1
        self.leading = SimpleNamespace(
            proposed=None, follower=lambda broker_id: None, settled=self._settled, refused=self._end
        )

    def _settled(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.isr, self.partition_epoch = isr, partition_epoch
        self._end()

    def _end(self, *, ineligible: bool = False) -> None:
        self.leading.proposed = None

    def propose(self, changes: IsrChanges, *isr: int) -> None:
        self.leading.proposed = isr
        changes.propose(cast(Partition, self), isr)


def answers_for(*partitions: tuple[bytes, int, ErrorCode]) -> AlterPartitionResponse:
    """The ISR (1, 2) for each of these partitions, or an error."""
    return AlterPartitionResponse(
        topics=[
            ResponseTopicData(
                topic_id,
                [
                    ResponsePartitionData(
                        index,
                        error,
                        leader_id=1,
                        leader_epoch=4,
                        isr=[1, 2],
                        partition_epoch=20,
                    )
                ],
            )
            for topic_id, index, error in partitions
        ]
    )


def partitions_in(request: AlterPartitionRequest) -> set[tuple[bytes, int, int]]:
    """Topic id, partition and partition epoch of each proposal in a request."""
    return {
        (topic.topic_id, each.partition_index, each.partition_epoch)
        for topic in request.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize(
    "failure",
    [
        PeerError("the controller", "no answer"),
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AlterPartitionResponse(topics=[]),
    ],
)
async def test_undecided_proposal_is_sent_again_after_a_pause(
    failure: Answer, autojump_clock: trio.testing.MockClock
) -> None:
    controller = TimedController(failure, failure)
    changes = changes_of(controller)
    Proposing(TOPIC_ID, 0).propose(changes, 1, 2)
    with trio.move_on_after(1):
        await changes.run()
    assert controller.pauses_s == [0.05, 0.05]


@pytest.mark.parametrize(
    "decision", [ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION]
)
async def test_next_proposal_is_sent_as_soon_as_the_one_before_is_decided(
    decision: ErrorCode, autojump_clock: trio.testing.MockClock
) -> None:
    """A proposal of another partition waits for the pending request, and for no pause."""
    first, second = Proposing(TOPIC_ID, 0), Proposing(TOPIC_ID, 1)

    class Proposed(TimedController):
        async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
            if not self.requests:
                second.propose(changes, 1, 2)
            return await super().alter_partition(request)

    controller = Proposed(answers_for((TOPIC_ID, 0, decision)))
    changes = changes_of(controller)
    first.propose(changes, 1, 2)
    with trio.move_on_after(1):
        await changes.run()
    assert [partitions_in(each) for each in controller.requests] == [
        {(TOPIC_ID, 0, 10)},
        {(TOPIC_ID, 1, 11)},
    ]
    assert controller.pauses_s == [0]


async def test_proposals_are_sent_together_and_only_undecided_ones_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The controller's answer may name a partition that was not asked for, which is ignored."""
    other_id = b"o" * 16
    partitions = [Proposing(TOPIC_ID, 0), Proposing(TOPIC_ID, 1), Proposing(other_id, 0)]
    controller = TimedController(
        answers_for(
            (TOPIC_ID, 9, ErrorCode.NONE),
            (TOPIC_ID, 0, ErrorCode.NOT_CONTROLLER),
            (other_id, 0, ErrorCode.NONE),
        )
    )
    changes = changes_of(controller)
    for each in partitions:
        each.propose(changes, 1, 2)
    with trio.move_on_after(1):
        await changes.run()
    everything = {(TOPIC_ID, 0, 10), (TOPIC_ID, 1, 11), (other_id, 0, 10)}
    assert [partitions_in(each) for each in controller.requests] == [
        everything,
        everything - {(other_id, 0, 10)},
    ]
    assert [len(each.topics) for each in controller.requests] == [2, 1]
    assert [each.isr for each in partitions] == [(1,), (1,), (1, 2)]


async def test_later_proposal_of_a_partition_replaces_the_one_in_flight(
    autojump_clock: trio.testing.MockClock,
) -> None:
    partition = Proposing(TOPIC_ID, 0)

    class Replaced(TimedController):
        async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
            if not self.requests:
                partition.propose(changes, 1, 3)
            return await super().alter_partition(request)

    controller = Replaced(PeerError("the controller", "no answer"))
    changes = changes_of(controller)
    partition.propose(changes, 1, 2)
    with trio.move_on_after(1):
        await changes.run()
    isrs = [
        [each.broker_id for each in request.topics[0].partitions[0].new_isr_with_epochs]
        for request in controller.requests
    ]
    assert isrs == [[1, 2], [1, 3]]


async def test_proposals_beyond_the_limit_of_a_request_go_into_the_next(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_module, "PARTITIONS_MAX", 2)
    controller = TimedController(
        answers_for(*((TOPIC_ID, index, ErrorCode.NONE) for index in range(3)))
    )
    changes = changes_of(controller)
    for index in range(3):
        Proposing(TOPIC_ID, index).propose(changes, 1, 2)
    with trio.move_on_after(1):
        await changes.run()
    requests = [partitions_in(each) for each in controller.requests]
    assert [len(each) for each in requests] == [2, 1]
    assert requests[0] | requests[1] == {(TOPIC_ID, index, 10 + index) for index in range(3)}


async def test_proposal_that_the_controller_has_overtaken_is_not_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """LeaderAndIsr brings a later partition epoch before the proposal is sent."""
    controller = TimedController()
    changes = changes_of(controller)
    partition, other = Proposing(TOPIC_ID, 0), Proposing(TOPIC_ID, 1)
    partition.propose(changes, 1, 2)
    other.propose(changes, 1, 2)
    partition.partition_epoch += 1
    with trio.move_on_after(1):
        await changes.run()
    assert [partitions_in(each) for each in controller.requests] == [{(TOPIC_ID, 1, 11)}]


async def test_refusal_of_an_overtaken_proposal_does_not_end_the_later_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    partition = Proposing(TOPIC_ID, 0)

    class Overtaken(TimedController):
        async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
            if not self.requests:
                partition.propose(changes, 1, 3)
            return await super().alter_partition(request)

    controller = Overtaken(answers_for((TOPIC_ID, 0, ErrorCode.INELIGIBLE_REPLICA)))
    changes = changes_of(controller)
    partition.propose(changes, 1, 2)
    with trio.move_on_after(1):
        await changes.run()
    assert len(controller.requests) == 2
    assert partition.leading.proposed == (1, 3)
