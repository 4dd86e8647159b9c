"""AlterPartition: the answers to a leader that changes its ISR, and the changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kwire.cluster.controller import isr
from kwire.cluster.controller.state import ControllerState
from kwire.cluster.metadata.changes import AlterPartition
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import PartitionImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.cluster.controller.test_controller_decisions import (
    EPOCH,
    LED,
    changes,
    controller_state,
    reply,
)

TOPIC_ID = b"t" * 16
ALONE = replace(LED, isr=(1,))
RECOVERING = replace(ALONE, recovering=True)


def isr_request(
    isr: Sequence[int],
    *,
    index: int = 0,
    leader_epoch: int = 5,
    partition_epoch: int = 7,
    recovers: bool = False,
) -> RequestPartitionData:
    return RequestPartitionData(
        index,
        leader_epoch,
        list(isr),
        leader_recovery_state=int(recovers),
        partition_epoch=partition_epoch,
    )


def change_isr(
    state: ControllerState, *partitions: RequestPartitionData, leader: int = 1
) -> tuple[list[AlterPartition], list[ResponsePartitionData]]:
    """The changes that follow from a leader's request about partitions of `t`, and the answer."""
    request = AlterPartitionRequest(
        leader, EPOCH + leader, [RequestTopicData(TOPIC_ID, [*partitions])]
    )
    effects = isr.alter_partition(state, request)
    made = changes(state, effects)
    answer = reply(state, effects)
    assert isinstance(answer, AlterPartitionResponse)
    assert answer.error_code == ErrorCode.NONE
    [topic] = answer.topics
    assert topic.topic_id == TOPIC_ID
    return made, topic.partitions


def refusal(state: ControllerState, request: RequestPartitionData, leader: int = 1) -> ErrorCode:
    """The error of an answer without changes or other fields."""
    made, [answer] = change_isr(state, request, leader=leader)
    assert made == []
    assert answer == ResponsePartitionData(request.partition_index, answer.error_code)
    return ErrorCode(answer.error_code)


def test_isr_change_is_decided_and_answered_in_full() -> None:
    before = replace(LED, adding=(3,), isr=(1, 2), controller_epoch=4)
    made, answers = change_isr(controller_state(LED, before), isr_request([1, 2, 3], index=1))
    after = replace(before, isr=(1, 2, 3), partition_epoch=8, controller_epoch=9)
    assert made == [AlterPartition("t", TOPIC_ID, 1, 7, after)]
    assert answers == [
        ResponsePartitionData(
            1,
            ErrorCode.NONE,
            leader_id=1,
            leader_epoch=5,
            isr=[1, 2, 3],
            leader_recovery_state=0,
            partition_epoch=8,
        )
    ]


def test_present_isr_is_answered_without_a_change() -> None:
    made, answers = change_isr(
        controller_state(RECOVERING), isr_request([1], partition_epoch=2, recovers=True)
    )
    assert made == []
    assert answers == [
        ResponsePartitionData(
            0,
            ErrorCode.NONE,
            leader_id=1,
            leader_epoch=5,
            isr=[1],
            leader_recovery_state=1,
            partition_epoch=7,
        )
    ]


def test_leader_reports_that_it_has_recovered() -> None:
    [change], [answer] = change_isr(controller_state(RECOVERING), isr_request([1]))
    assert (change.state.recovering, answer.leader_recovery_state) == (False, 0)
    assert (change.state.partition_epoch, answer.partition_epoch) == (8, 8)


@pytest.mark.parametrize(
    ("partition", "isr"), [(RECOVERING, [1, 2]), (ALONE, [1]), (replace(LED, isr=(1, 2)), [1])]
)
def test_recovering_leader_with_other_isr_members_or_again_is_refused(
    partition: PartitionImage, isr: list[int]
) -> None:
    assert (
        refusal(controller_state(partition), isr_request(isr, recovers=True))
        == ErrorCode.INVALID_REQUEST
    )


@pytest.mark.parametrize(
    ("leader", "isr"),
    [
        (2, [1, 2]),  # it does not lead
        (1, [2]),  # it is not in sync itself
        (1, [1, 2, 3]),  # broker 3 has no replica
    ],
)
def test_isr_change_by_another_broker_or_of_non_replicas_is_refused(
    leader: int, isr: list[int]
) -> None:
    state = controller_state(replace(LED, replicas=(1, 2), isr=(1,)))
    assert refusal(state, isr_request(isr), leader=leader) == ErrorCode.INVALID_REQUEST


def test_absent_or_stopping_broker_is_an_ineligible_replica() -> None:
    assert (
        refusal(controller_state(ALONE, away=3), isr_request([1, 3]))
        == ErrorCode.INELIGIBLE_REPLICA
    )
    state = controller_state(ALONE)
    state.shutting_down.add(2)
    assert refusal(state, isr_request([1, 2])) == ErrorCode.INELIGIBLE_REPLICA
    made, _ = change_isr(state, isr_request([1, 3]))
    assert [change.state.isr for change in made] == [(1, 3)]


@pytest.mark.parametrize(
    ("epochs", "error"),
    [
        ({1: EPOCH + 1, 2: EPOCH + 2}, ErrorCode.NONE),
        ({1: -1, 2: -1}, ErrorCode.NONE),
        ({1: EPOCH + 1, 2: EPOCH + 1}, ErrorCode.INELIGIBLE_REPLICA),
        ({1: EPOCH + 2, 2: -1}, ErrorCode.INELIGIBLE_REPLICA),
        ({1: -1, 2: -2}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_isr_member_is_eligible_only_with_its_current_broker_epoch(
    epochs: dict[int, int], error: ErrorCode
) -> None:
    request = RequestPartitionData(
        0,
        5,
        new_isr_with_epochs=[BrokerState(each, epoch) for each, epoch in epochs.items()],
        partition_epoch=7,
    )
    made, [answer] = change_isr(controller_state(ALONE), request)
    assert answer.error_code == error
    assert [change.state.isr for change in made] == ([(1, 2)] if not error else [])


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "error"),
    [
        (6, 6, ErrorCode.NOT_CONTROLLER),
        (4, 8, ErrorCode.NOT_CONTROLLER),
        (4, 6, ErrorCode.FENCED_LEADER_EPOCH),
        (5, 6, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_later_epochs_are_not_controller_and_earlier_ones_fenced_or_invalid(
    leader_epoch: int, partition_epoch: int, error: ErrorCode
) -> None:
    request = isr_request([1, 2], leader_epoch=leader_epoch, partition_epoch=partition_epoch)
    assert refusal(controller_state(ALONE), request) == error


def test_isr_change_of_an_unknown_or_new_partition_is_unknown_partition() -> None:
    state = controller_state(LED, unassigned_partition((1, 2)))
    request = isr_request([1], index=1, leader_epoch=-1, partition_epoch=-1)
    assert refusal(state, request) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(state, isr_request([1], index=2)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(state, isr_request([1], index=-1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_isr_changes_are_answered_for_each_partition() -> None:
    state = controller_state(LED, ALONE)
    unknown = b"n" * 16
    request = AlterPartitionRequest(
        1,
        EPOCH + 1,
        [
            RequestTopicData(TOPIC_ID, [isr_request([1, 2]), isr_request([1, 9], index=1)]),
            RequestTopicData(unknown, [isr_request([1], index=4), isr_request([1], index=5)]),
        ],
    )
    effects = isr.alter_partition(state, request)
    assert [change.index for change in changes(state, effects)] == [0]
    answer = reply(state, effects)
    assert answer.topics[0] == ResponseTopicData(
        unknown,
        [ResponsePartitionData(each, ErrorCode.UNKNOWN_TOPIC_ID) for each in (4, 5)],
    )
    [_, known_topic] = answer.topics
    assert known_topic.topic_id == TOPIC_ID
    assert [(each.partition_index, each.error_code) for each in known_topic.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.INELIGIBLE_REPLICA),
    ]


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, EPOCH), (1, EPOCH + 2), (4, EPOCH + 4)])
def test_isr_change_of_another_or_unknown_broker_epoch_is_stale(broker_id: int, epoch: int) -> None:
    request = AlterPartitionRequest(
        broker_id, epoch, [RequestTopicData(TOPIC_ID, [isr_request([1, 2])])]
    )
    effects = isr.alter_partition(controller_state(LED), request)
    assert effects.decisions == []
    assert effects.then is None
    assert effects.reply == AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


def test_isr_change_is_decided_again_for_a_new_image() -> None:
    """The first image refused it; the answer is that for the last image."""
    state = controller_state(replace(LED, leader_epoch=4))
    request = AlterPartitionRequest(
        1, EPOCH + 1, [RequestTopicData(TOPIC_ID, [isr_request([1, 2])])]
    )
    effects = isr.alter_partition(state, request)
    assert changes(state, effects) == []
    state.image = controller_state(LED).image
    [change] = changes(state, effects)
    assert change.state.isr == (1, 2)
    [topic] = reply(state, effects).topics
    assert topic.partitions[0].error_code == ErrorCode.NONE
