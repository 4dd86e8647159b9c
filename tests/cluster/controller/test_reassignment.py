"""Reassignments: their states, and the answers to requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kwire.cluster.controller import reassignment
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.controller.reassignment import (
    completion_decision,
    reassigning_state,
    resumption_decision,
)
from kwire.cluster.controller.state import ControllerState
from kwire.cluster.metadata.changes import AlterPartition, CreateTopic, MarkForDeletion, SetConfigs
from kwire.cluster.metadata.election import Online, unassigned_partition
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage, TopicImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kwire.settings import ConfigResourceType
from tests.cluster.controller import laws
from tests.cluster.controller.test_controller_decisions import (
    LED,
    PARTITION,
    changes,
    controller_state,
    reply,
)

PAIR = replace(LED, replicas=(1, 2), isr=(1, 2))
MOVING = replace(LED, replicas=(3, 1, 2), isr=(1, 2), adding=(3,), removing=(1,))
"""To the brokers 3 and 2; broker 3 is not in sync yet."""


def everybody(_: int) -> bool:
    return True


def without(*away: int) -> Online:
    return lambda broker_id: broker_id not in away


def next_state(partition: PartitionImage, **fields: object) -> PartitionImage:
    """The state with these fields, in the next epochs."""
    given: dict[str, Any] = {
        "leader_epoch": partition.leader_epoch + 1,
        "partition_epoch": partition.partition_epoch + 1,
        **fields,
    }
    return replace(partition, **given)


# -- what a partition becomes


@pytest.mark.parametrize(
    ("partition", "target", "after"),
    [
        # replicas come, those that go are last, and it is led as before
        (PAIR, [3, 2], {"replicas": (3, 2, 1), "adding": (3,), "removing": (1,)}),
        (PAIR, [3, 1, 2], {"replicas": (3, 1, 2), "adding": (3,)}),
        # all that it is to have are in sync: it is so at once
        (LED, [2, 1], {"replicas": (2, 1), "isr": (1, 2)}),
        (LED, [3, 2], {"replicas": (3, 2), "isr": (2, 3), "leader": 3}),
        (LED, [3, 2, 1], {"replicas": (3, 2, 1)}),
        # another target while one is under way: what came for the first goes at once
        (MOVING, [2, 1], {"replicas": (2, 1), "adding": (), "removing": ()}),
        (MOVING, [3], {"replicas": (3, 1, 2), "adding": (3,), "removing": (1, 2)}),
        (
            replace(MOVING, leader=3, isr=(3, 1)),
            [1, 2],
            {"replicas": (1, 2), "isr": (1,), "leader": 1, "adding": (), "removing": ()},
        ),
    ],
)
def test_reassigning_state_has_both_replica_sets_or_is_complete(
    partition: PartitionImage, target: Sequence[int], after: dict[str, object]
) -> None:
    assert reassigning_state(partition, target, everybody, unclean=False) == next_state(
        partition, **after
    )


def test_partition_losing_its_leader_at_once_is_leaderless_without_online_isr() -> None:
    partition = replace(MOVING, leader=3, isr=(3, 1))
    after = reassigning_state(partition, [1, 2], without(1), unclean=True)
    assert after == next_state(
        partition, replicas=(1, 2), isr=(1,), leader=NO_LEADER, adding=(), removing=()
    )


def test_partition_losing_its_isr_at_once_needs_an_unclean_election() -> None:
    partition = replace(MOVING, leader=3, isr=(3,))
    assert reassigning_state(partition, [1, 2], everybody, unclean=False) is None
    assert reassigning_state(partition, [1, 2], without(1, 2), unclean=True) is None
    assert reassigning_state(partition, [1, 2], everybody, unclean=True) == next_state(
        partition, replicas=(1, 2), isr=(1,), leader=1, adding=(), removing=(), recovering=True
    )


def test_reassignment_waits_for_an_online_leader_among_the_targets() -> None:
    partition = replace(LED, replicas=(1, 2, 3), isr=(1, 2), leader=1)
    state = controller_state(partition, away=2)
    after = reassigning_state(partition, [2], state.online(PARTITION), unclean=False)
    assert after == next_state(partition, removing=(1, 3), replicas=(2, 1, 3))


def complete(state: ControllerState) -> AlterPartition | None:
    change = completion_decision(state, PARTITION)(state.image)
    assert change is None or isinstance(change, AlterPartition)
    return change


def resumed(state: ControllerState) -> AlterPartition | None:
    change = resumption_decision(state, PARTITION)(state.image)
    assert change is None or isinstance(change, AlterPartition)
    return change


def test_reassignment_is_complete_when_all_targets_are_in_sync() -> None:
    assert complete(controller_state(MOVING)) is None
    partition = replace(MOVING, isr=(1, 2, 3))
    change = complete(controller_state(partition))
    after = next_state(
        partition, replicas=(3, 2), isr=(2, 3), leader=3, adding=(), removing=(), controller_epoch=9
    )
    assert change == AlterPartition("t", b"t" * 16, 0, 7, after)
    assert resumed(controller_state(partition)) == change


def test_reassignment_completes_with_its_leader_if_that_is_an_online_target() -> None:
    partition = replace(MOVING, leader=2, isr=(1, 2, 3))
    led_on = complete(controller_state(partition))
    assert led_on is not None
    assert led_on.state.leader == 2
    state = controller_state(partition)
    state.shutting_down.add(2)
    led_by_another = complete(state)
    assert led_by_another is not None
    assert led_by_another.state.leader == 3


def test_reassignment_that_cannot_complete_is_sent_again() -> None:
    state = controller_state(MOVING)
    change = resumed(state)
    assert change is not None
    assert change.state == next_state(MOVING, controller_epoch=9)
    state.shutting_down |= {2, 3}
    nobody_to_lead = replace(MOVING, isr=(1, 2, 3))
    state.image = controller_state(nobody_to_lead).image
    assert complete(state) is None
    change = resumed(state)
    assert change is not None
    assert change.state == next_state(nobody_to_lead, controller_epoch=9)


@pytest.mark.parametrize("fields", [{"adding": ()}, {"removing": ()}])
def test_partition_with_only_adding_or_removing_replicas_is_reassigned(
    fields: dict[str, Any],
) -> None:
    partition = replace(MOVING, isr=(1, 2, 3), **fields)
    assert complete(controller_state(partition)) is not None
    assert resumed(controller_state(partition)) is not None


def test_partition_not_reassigned_or_deleted_is_neither_completed_nor_resumed() -> None:
    for state in (controller_state(LED), controller_state()):
        assert complete(state) is None
        assert resumed(state) is None


# -- by request


def alter(
    state: ControllerState,
    wanted: dict[str, dict[int, list[int] | None]],
    *,
    may_change_factor: bool = True,
) -> tuple[list[AlterPartition], AlterPartitionReassignmentsResponse]:
    topics = [
        ReassignableTopic(name, [ReassignablePartition(*each) for each in its.items()])
        for name, its in wanted.items()
    ]
    request = AlterPartitionReassignmentsRequest(1000, may_change_factor, topics)
    effects = reassignment.alter_reassignments(state, request)
    made = changes(state, effects)
    return made, reply(state, effects)


def refused(
    state: ControllerState, replicas: list[int] | None, *, may_change_factor: bool = True
) -> tuple[int, str | None]:
    made, answer = alter(state, {"t": {0: replicas}}, may_change_factor=may_change_factor)
    assert made == []
    [result] = answer.responses[0].partitions
    return result.error_code, result.error_message


def test_reassignments_are_answered_for_each_partition() -> None:
    state = controller_state(PAIR, PAIR, MOVING)
    made, answer = alter(state, {"t": {0: [3, 2], 1: [1, 2], 2: None, 3: [1]}, "n": {0: [1]}})
    assert [(each.index, each.state.replicas) for each in made] == [(0, (3, 2, 1)), (2, (1, 2))]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer == AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=True,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                "t",
                [
                    *(ReassignablePartitionResponse(each, 0, None) for each in (0, 1, 2)),
                    ReassignablePartitionResponse(3, unknown, "Unable to find partition t:3."),
                ],
            ),
            ReassignableTopicResponse(
                "n",
                [ReassignablePartitionResponse(0, unknown, "Unable to find a topic named n.")],
            ),
        ],
    )


@pytest.mark.parametrize("may_change", [True, False])
def test_empty_reassignment_request_is_answered_at_once(may_change: bool) -> None:
    request = AlterPartitionReassignmentsRequest(1000, may_change, [])
    effects = reassignment.alter_reassignments(controller_state(LED), request)
    assert (effects.decisions, effects.then) == ([], None)
    assert effects.reply == AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change
    )


def test_cancelled_reassignment_restores_the_original_replicas() -> None:
    [change], _ = alter(controller_state(MOVING), {"t": {0: None}})
    assert change.state == next_state(
        MOVING, replicas=(1, 2), adding=(), removing=(), controller_epoch=9
    )
    for one_way in (replace(MOVING, adding=()), replace(MOVING, removing=())):
        assert alter(controller_state(one_way), {"t": {0: None}})[0]
    assert refused(controller_state(LED), None)[0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_reassignment_to_the_present_replicas_is_accepted_during_a_reassignment() -> None:
    """The request then keeps all replicas; it is not a request for the present state."""
    [change], _ = alter(controller_state(replace(MOVING, isr=(1, 2, 3))), {"t": {0: [3, 1, 2]}})
    assert change.state.removing == ()
    for one_way in (replace(MOVING, adding=()), replace(MOVING, removing=())):
        assert alter(controller_state(one_way), {"t": {0: [3, 1, 2]}})[0]


def test_reassignment_of_a_deleted_topic_is_unknown_partition() -> None:
    state = controller_state(LED)
    state.image = MarkForDeletion("t", b"t" * 16).apply_to(state.image)
    assert refused(state, [1, 2])[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_new_partition_gets_the_target_replicas_at_once() -> None:
    [change], _ = alter(controller_state(unassigned_partition((1,))), {"t": {0: [3, 2]}})
    assert change.partition_epoch == -1
    assert change.state == PartitionImage(3, 0, 0, (3, 2), (3, 2), controller_epoch=9)


def test_added_replica_must_be_live_and_not_shutting_down() -> None:
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused(controller_state(PAIR, away=3), [1, 3]) == (
        invalid,
        "The manual partition assignment includes broker 3, but no such broker is registered.",
    )
    state = controller_state(PAIR)
    state.shutting_down.add(3)
    assert refused(state, [1, 3])[0] == invalid
    state.shutting_down.add(2)
    assert alter(state, {"t": {0: [2, 1]}})[1].responses[0].partitions[0].error_code == 0


def test_absent_replica_of_an_earlier_reassignment_is_refused() -> None:
    assert (
        refused(controller_state(MOVING, away=3), [3, 2])[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def test_replication_factor_must_stay_on_request_and_counts_targets() -> None:
    assert refused(controller_state(MOVING), [1, 2, 3], may_change_factor=False) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 3",
    )
    assert alter(controller_state(MOVING), {"t": {0: [1, 3]}}, may_change_factor=False)[0]


def test_reassignment_without_in_sync_replica_is_refused_unless_unclean() -> None:
    partition = replace(MOVING, leader=3, isr=(3,))
    state = controller_state(partition)
    error, message = refused(state, None)
    assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message == (
        "Unable to change the replicas of t-0: nobody in sync would be left to lead it."
    )
    change = SetConfigs(ConfigResourceType.TOPIC, "t", {}, {laws.UNCLEAN: "true"})
    state.image = change.apply_to(state.image)
    [made], _ = alter(state, {"t": {0: None}})
    assert (made.state.leader, made.state.recovering) == (1, True)


def test_replica_on_a_failed_disk_does_not_lead_a_reassigned_partition() -> None:
    state = controller_state(LED)
    state.offline[3] = {PARTITION}
    [change], _ = alter(state, {"t": {0: [3, 2]}})
    assert change.state.leader == 2


# -- in the store


def test_refused_reassignments_of_the_store_are_the_reply() -> None:
    state = controller_state(PAIR, PAIR, PAIR)
    wanted = {("t", 1): (2, 9), ("n", 0): (1,), PARTITION: (1, 1), ("t", 2): (1, 2)}
    machine = ClusterController(state.settings, state.image)
    machine.start()
    effects = machine.reassignments_requested(wanted)
    [change] = changes(machine.state, effects)
    assert (change.index, change.state.replicas, change.state.adding) == (1, (2, 9, 1), (9,))
    assert reply(machine.state, effects) == [("n", 0), PARTITION]


# -- what is under way


def listed(
    state: ControllerState, wanted: dict[str, list[int]] | None
) -> ListPartitionReassignmentsResponse:
    topics = None
    if wanted is not None:
        topics = [ListPartitionReassignmentsTopics(*each) for each in wanted.items()]
    return reassignment.list_reassignments(state, ListPartitionReassignmentsRequest(1000, topics))


def test_reassignments_are_listed_by_topic_for_all_or_the_named() -> None:
    state = controller_state(MOVING, LED, replace(MOVING, adding=()), replace(MOVING, removing=()))
    topic = TopicImage("s", b"s" * 16, (MOVING,))
    state.image = CreateTopic(topic).apply_to(state.image)
    state.add_to_indexes(("s", 0), MOVING)
    first = OngoingPartitionReassignment(0, [3, 1, 2], [3], [1])
    second = OngoingPartitionReassignment(2, [3, 1, 2], [], [1])
    third = OngoingPartitionReassignment(3, [3, 1, 2], [3], [])
    assert listed(state, None) == ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=[
            OngoingTopicReassignment("s", [first]),
            OngoingTopicReassignment("t", [first, second, third]),
        ],
    )
    assert listed(state, {"t": [3, 1, 0, 9], "n": [0]}).topics == [
        OngoingTopicReassignment("t", [first, third])
    ]
    assert listed(state, {}).topics == []
