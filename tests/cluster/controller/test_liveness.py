"""Brokers that start, leave, shut down or lose disks: requests, decisions and state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from kwire.cluster.controller import deletion, liveness, shutdown
from kwire.cluster.controller.effects import BrokerRequest, ControllerEffects
from kwire.cluster.controller.state import ControllerState, DeletionProgress
from kwire.cluster.metadata.changes import (
    Change,
    MarkForDeletion,
    RegisterBroker,
    UnregisterBroker,
    apply_all,
)
from kwire.cluster.metadata.delta import delta_of
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kwire.codecs.messages.stop_replica import StopReplicaRequest
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest
from tests.cluster.controller.test_controller_decisions import (
    EPOCH,
    LED,
    MOVING,
    PARTITION,
    broker,
    changes,
    controller_state,
    reply,
)
from tests.cluster.controller.test_requests_to_brokers import requests_of_kind, with_topic

NEVER = unassigned_partition((1, 2, 3))


def leader_and_isr_sent(requests: list[BrokerRequest]) -> dict[int, list[tuple[str, int]]]:
    """The partitions of LeaderAndIsr for each broker."""
    return {
        broker_id: [
            (topic.topic_name, each.partition_index)
            for topic in request.topic_states
            for each in topic.partition_states
        ]
        for broker_id, request in requests_of_kind(requests, LeaderAndIsrRequest).items()
    }


def update_metadata_sent(requests: Iterable[BrokerRequest]) -> dict[int, list[tuple[str, int]]]:
    """The partitions of all UpdateMetadata requests for each broker."""
    found: dict[int, list[tuple[str, int]]] = {}
    for each in requests:
        if isinstance(each.request, UpdateMetadataRequest):
            found.setdefault(each.broker_id, []).extend(
                (topic.topic_name, state.partition_index)
                for topic in each.request.topic_states
                for state in topic.partition_states
            )
    return found


def stop_replica_sent(requests: list[BrokerRequest]) -> dict[int, list[tuple[str, int, bool]]]:
    return {
        broker_id: [
            (topic.topic_name, each.partition_index, each.delete_partition)
            for topic in request.topic_states
            for each in topic.partition_states
        ]
        for broker_id, request in requests_of_kind(requests, StopReplicaRequest).items()
    }


def publish_broker_changes(state: ControllerState, *made: Change) -> ControllerEffects:
    """Publish changes of brokers."""
    before = state.image
    state.image = apply_all(before, made)
    return liveness.brokers_changed(state, delta_of(before, state.image, made))


def decided_states(
    state: ControllerState, effects: ControllerEffects
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Partition, leader and ISR of each change."""
    return [(each.index, each.state.leader, each.state.isr) for each in changes(state, effects)]


# -- a broker goes


def test_broker_that_left_is_removed_from_isr_and_its_other_partitions_are_sent() -> None:
    state = controller_state(
        LED,
        replace(LED, leader=2),
        replace(LED, leader=2, isr=(2, 3)),
        replace(LED, replicas=(2, 3), isr=(2, 3), leader=2),
        replace(LED, replicas=(1, 2), isr=(1,)),
        NEVER,
        replace(LED, leader=2, isr=(3, 2)),
    )
    state.shutting_down.add(1)
    state.offline[1] = {("t", 6)}
    effects = publish_broker_changes(state, UnregisterBroker(1))
    assert effects.requests == []
    assert decided_states(state, effects) == [(0, 2, (2, 3)), (1, 2, (2, 3)), (4, NO_LEADER, (1,))]
    assert (set(state.members), state.shutting_down, state.offline) == ({2, 3}, set(), {})
    assert state.leaderless == {("t", 0), ("t", 4), ("t", 5)}
    assert effects.then is not None
    after = effects.then()
    assert update_metadata_sent(after.requests) == {each: [("t", 2), ("t", 6)] for each in (2, 3)}
    assert {type(each.request) for each in after.requests} == {UpdateMetadataRequest}


def test_departure_is_sent_at_once_if_no_partition_changes() -> None:
    state = controller_state(replace(LED, leader=2, isr=(2, 3)))
    effects = publish_broker_changes(state, UnregisterBroker(1))
    assert (effects.decisions, effects.then) == ([], None)
    assert update_metadata_sent(effects.requests) == {2: [PARTITION], 3: [PARTITION]}
    update = requests_of_kind(effects.requests, UpdateMetadataRequest)[2]
    assert [each.id for each in update.live_brokers] == [2, 3]


def test_departure_sends_nothing_itself_if_all_partitions_change() -> None:
    effects = publish_broker_changes(controller_state(LED), UnregisterBroker(2))
    assert effects.then is None
    assert effects.requests == []
    assert len(effects.decisions) == 1


def test_departure_of_a_broker_without_replicas_is_sent() -> None:
    state = controller_state(replace(LED, replicas=(1, 2), isr=(1, 2)))
    effects = publish_broker_changes(state, UnregisterBroker(3))
    assert update_metadata_sent(effects.requests) == {1: [], 2: []}


@pytest.mark.parametrize("partition", [LED, MOVING])
def test_partition_of_a_deleted_topic_changes_only_while_it_is_reassigned(
    partition: PartitionImage,
) -> None:
    state = controller_state(partition)
    state.image = MarkForDeletion("t", b"t" * 16).apply_to(state.image)
    deletion.note_marked_topics(state)
    effects = publish_broker_changes(state, UnregisterBroker(1))
    assert len(effects.decisions) == (partition is MOVING)
    assert update_metadata_sent(effects.requests).keys() == ({2, 3} if partition is LED else set())


def test_deletion_halts_when_a_broker_with_a_pending_replica_leaves() -> None:
    state = controller_state(LED, LED)
    going = state.deletions["t"] = DeletionProgress(requested={(1, 0), (2, 0)}, deleted={(1, 1)})
    publish_broker_changes(state, UnregisterBroker(1))
    assert going == DeletionProgress(requested={(2, 0)}, deleted={(1, 1)}, halted=True)


# -- a broker comes


def test_broker_that_starts_gets_all_metadata_and_leads_its_leaderless_partitions() -> None:
    lost = replace(LED, leader=NO_LEADER, isr=(3,))
    state = controller_state(LED, lost, NEVER, replace(LED, replicas=(1, 2), isr=(1, 2)), away=3)
    with_topic(state, "s", replace(LED, replicas=(2, 1), isr=(1,)))
    effects = publish_broker_changes(state, RegisterBroker(broker(3)))
    assert effects.requests == []
    assert 3 not in state.members
    assert effects.then is not None
    after = effects.then()
    assert state.members == {each: EPOCH + each for each in (1, 2, 3)}
    assert leader_and_isr_sent(after.requests) == {3: [("t", 0), ("t", 1)]}
    mine = [("s", 0), ("t", 0), ("t", 1), ("t", 3)]
    assert update_metadata_sent(after.requests) == {1: mine[1:3], 2: mine[1:3], 3: mine}
    first = after.requests[0]
    assert first.broker_id == 3, "it looks in it for the leaders that it is to follow"
    assert isinstance(first.request, UpdateMetadataRequest)
    assert decided_states(state, after) == [(1, 3, (3,)), (2, 1, (1, 2, 3))]


def test_broker_is_not_started_if_it_left_again_or_has_another_epoch() -> None:
    for registered in ([], [RegisterBroker(replace(broker(3), epoch=EPOCH + 9))]):
        state = controller_state(LED, away=3)
        state.image = apply_all(state.image, registered)
        effects = liveness.start_brokers(state, {3: EPOCH + 3})
        assert (effects.requests, effects.decisions, effects.timers) == ([], [], [])
        assert state.members.keys() == {1, 2}


def test_broker_with_a_new_epoch_is_removed_before_it_is_started() -> None:
    state = controller_state(LED)
    again = replace(broker(1), epoch=EPOCH + 9)
    effects = publish_broker_changes(state, UnregisterBroker(1), RegisterBroker(again))
    assert state.members.keys() == {2, 3}
    assert decided_states(state, effects) == [(0, 2, (2, 3))]
    assert effects.then is not None
    after = effects.then()
    assert state.members[1] == EPOCH + 9
    assert leader_and_isr_sent(after.requests) == {1: [PARTITION]}
    assert requests_of_kind(after.requests, LeaderAndIsrRequest)[1].broker_epoch == EPOCH + 9


def test_broker_changed_in_the_same_epoch_is_only_sent_to_all() -> None:
    state = controller_state(LED)
    effects = publish_broker_changes(state, RegisterBroker(replace(broker(2), rack="r")))
    assert update_metadata_sent(effects.requests) == {1: [], 2: [], 3: []}
    brokers = requests_of_kind(effects.requests, UpdateMetadataRequest)[1].live_brokers
    assert [each.rack for each in brokers] == [None, "r", None]
    assert (effects.decisions, effects.then) == ([], None)
    assert state.members.keys() == {1, 2, 3}


def test_brokers_that_leave_start_and_change_in_one_delta_are_all_handled() -> None:
    state = controller_state(LED, replace(LED, leader=2))
    effects = publish_broker_changes(
        state,
        UnregisterBroker(1),
        RegisterBroker(broker(4)),
        RegisterBroker(replace(broker(2), rack="r")),
        RegisterBroker(broker(5)),
    )
    assert state.members.keys() == {2, 3}
    assert update_metadata_sent(effects.requests).keys() == {2, 3}
    assert [each[0] for each in decided_states(state, effects)] == [0, 1]
    assert effects.then is not None
    effects.then()
    assert state.members == {each: EPOCH + each for each in (2, 3, 4, 5)}


def test_broker_start_resumes_waiting_reassignments_and_deletions() -> None:
    state = controller_state(MOVING, LED, away=3)
    with_topic(state, "s", replace(LED, replicas=(1, 3), isr=(1,)))
    with_topic(state, "r", replace(LED, replicas=(1, 2), isr=(1,)))
    for name in "sr":
        state.image = MarkForDeletion(name, name.encode() * 16).apply_to(state.image)
        state.deletions[name] = DeletionProgress(halted=True)
    state.image = state.image.with_broker(broker(3))
    effects = liveness.start_brokers(state, {3: EPOCH + 3})
    assert decided_states(state, effects) == [(0, 1, (1, 2))]
    assert state.deletions["s"] == DeletionProgress(requested={(1, 0), (3, 0)})
    assert state.deletions["r"] == DeletionProgress(halted=True)
    assert stop_replica_sent(effects.requests) == {1: [("s", 0, True)], 3: [("s", 0, True)]}


# -- a broker went while its coming was under way


def test_departed_isr_members_are_removed_and_a_leader_is_elected() -> None:
    state = controller_state(LED, away=1)
    effects = ControllerEffects(decisions=liveness.remove_departed_members(state, PARTITION, LED))
    assert len(effects.decisions) == 2
    assert decided_states(state, effects) == [(0, 2, (2, 3)), (0, 2, (2, 3))]


@pytest.mark.parametrize(
    ("partition", "decisions_count"),
    [
        (LED, 2),
        (replace(LED, isr=(2, 3), leader=2), 0),  # all in sync are there
        (replace(LED, leader=NO_LEADER, isr=(1,)), 0),  # it is the last one
        (replace(LED, leader=1, isr=(1,)), 2),
        (replace(LED, leader=NO_LEADER, isr=(1, 2)), 2),
    ],
)
def test_last_in_sync_replica_without_leadership_stays_in_isr(
    partition: PartitionImage, decisions_count: int
) -> None:
    state = controller_state(partition, away=1)
    assert len(liveness.remove_departed_members(state, PARTITION, partition)) == decisions_count


def without(state: ControllerState, broker_id: int) -> list[tuple[int, tuple[int, ...]]]:
    change = liveness._remove_replica(state, broker_id, PARTITION, state.image)
    return [] if change is None else [(change.state.leader, change.state.isr)]


def test_removed_broker_is_replaced_as_leader_only_if_it_led() -> None:
    assert without(controller_state(LED, away=2), 2) == [(1, (1, 3))]
    assert without(controller_state(LED, away=1), 1) == [(2, (2, 3))]
    assert without(controller_state(replace(LED, leader=2), away=2), 3) == [(1, (1,))]
    assert without(controller_state(replace(LED, isr=(1,)), away=1), 1) == [(NO_LEADER, (1,))]
    assert without(controller_state(replace(LED, isr=(1, 3)), away=2), 2) == []
    assert without(controller_state(replace(LED, replicas=(1, 3), isr=(1, 3)), away=2), 2) == []
    assert without(controller_state(away=2), 2) == []


def test_leader_on_a_failed_disk_is_replaced_by_an_online_broker_that_does_not_shut_down() -> None:
    state = controller_state(LED)
    state.offline[1] = {PARTITION}
    state.shutting_down.add(2)
    assert without(state, 1) == [(3, (3,))]


def test_last_in_sync_leader_is_replaced_only_if_the_topic_allows_unclean_election() -> None:
    state = controller_state(replace(LED, isr=(1,)), away=1)
    state.image = state.image.with_configs(2, "t", {"unclean.leader.election.enable": "true"})
    assert without(state, 1) == [(2, (2,))]


# -- brokers that had gone before


def test_new_controller_removes_absent_brokers_with_replicas() -> None:
    state = controller_state(LED, replace(LED, replicas=(1, 2), isr=(1, 2)), away=3)
    assert decided_states(state, liveness.remove_absent_brokers(state)) == [(0, 1, (1, 2))]


# -- disks


def failed_on(broker_id: int, *answers: tuple[bytes, int, ErrorCode]) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrTopicError(topic_id, [LeaderAndIsrPartitionError("", index, error)])
            for topic_id, index, error in answers
        ]
    )


T = b"t" * 16
LOST, FINE = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE


def test_failed_log_dirs_send_leader_and_isr_for_all_replicas_of_the_broker() -> None:
    state = controller_state(LED, NEVER, replace(LED, replicas=(2, 3), isr=(2, 3), leader=2))
    effects = liveness.log_dirs_failed(state, [1, 7])
    assert leader_and_isr_sent(effects.requests) == {1: [PARTITION]}
    assert update_metadata_sent(effects.requests) == {each: [PARTITION] for each in (1, 2, 3)}


def test_replicas_on_failed_disks_are_recorded_stopped_and_removed_from_isr() -> None:
    state = controller_state(LED, replace(LED, leader=2, isr=(2, 3)), LED, LED)
    state.offline[1] = {("t", 3)}
    answers = [(T, 0, LOST), (T, 1, LOST), (T, 2, FINE), (T, 3, LOST), (b"n" * 16, 2, LOST)]
    effects = liveness.leader_and_isr_answered(state, 1, failed_on(1, *answers))
    assert state.offline == {1: {("t", 0), ("t", 1), ("t", 3)}}
    assert stop_replica_sent(effects.requests) == {1: [("t", 0, False), ("t", 1, False)]}
    assert decided_states(state, effects) == [(0, 2, (2, 3))]
    assert state.leaderless == {PARTITION}
    assert effects.then is not None
    assert update_metadata_sent(effects.then().requests)[2] == [("t", 1)]


def test_response_with_a_top_level_error_changes_no_offline_replicas() -> None:
    state = controller_state(LED)
    response = failed_on(1, (T, 0, LOST))
    response.error_code = ErrorCode.STALE_CONTROLLER_EPOCH
    effects = liveness.leader_and_isr_answered(state, 1, response)
    assert (effects.requests, effects.decisions, state.offline) == ([], [], {})


def test_partition_errors_other_than_storage_change_no_offline_replicas() -> None:
    state = controller_state(LED, LED)
    state.offline[1] = {("t", 1)}
    answers = [(T, each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in (0, 1)]
    effects = liveness.leader_and_isr_answered(state, 1, failed_on(1, *answers))
    assert (effects.requests, effects.decisions) == ([], [])
    assert state.offline == {1: {("t", 1)}}


def test_replicas_back_online_get_leader_and_isr_and_may_lead() -> None:
    alone = replace(LED, replicas=(1,), isr=(1,), leader=NO_LEADER)
    state = controller_state(alone, MOVING, LED, NEVER)
    state.offline[1] = {("t", each) for each in range(4)}
    answers = [(T, each, FINE) for each in (0, 1, 3)]
    effects = liveness.leader_and_isr_answered(state, 1, failed_on(1, *answers))
    assert state.offline == {1: {("t", 2)}}
    assert leader_and_isr_sent(effects.requests) == {1: [("t", 0), ("t", 1)]}
    assert update_metadata_sent(effects.requests) == {
        each: [("t", 0), ("t", 1)] for each in (1, 2, 3)
    }
    assert decided_states(state, effects) == [(0, 1, (1,)), (3, 1, (1, 2, 3)), (1, 1, (1, 2))]
    effects = liveness.leader_and_isr_answered(state, 1, failed_on(1, (T, 2, FINE)))
    assert state.offline == {}
    assert leader_and_isr_sent(effects.requests) == {1: [("t", 2)]}


def test_replica_back_online_does_not_resume_reassignments_to_other_replicas() -> None:
    state = controller_state(MOVING, MOVING)
    state.offline[3] = {PARTITION, ("t", 1)}
    effects = liveness.leader_and_isr_answered(state, 3, failed_on(3, (T, 1, FINE)))
    assert decided_states(state, effects) == [(1, 1, (1, 2))]


def test_disks_that_fail_and_recover_in_one_response_are_both_handled() -> None:
    state = controller_state(LED, LED)
    state.offline[2] = {PARTITION}
    answers = [(T, 0, FINE), (T, 1, LOST)]
    effects = liveness.leader_and_isr_answered(state, 2, failed_on(2, *answers))
    assert state.offline == {2: {("t", 1)}}
    assert leader_and_isr_sent(effects.requests) == {2: [PARTITION]}
    assert stop_replica_sent(effects.requests) == {2: [("t", 1, False)]}
    assert decided_states(state, effects) == [(1, 1, (1, 3))]


def test_replica_of_a_deleted_topic_on_a_failed_disk_halts_the_deletion_unstopped() -> None:
    state = controller_state(LED)
    state.image = MarkForDeletion("t", T).apply_to(state.image)
    going = state.deletions["t"] = DeletionProgress(requested={(1, 0), (2, 0)})
    effects = liveness.leader_and_isr_answered(state, 1, failed_on(1, (T, 0, LOST)))
    assert stop_replica_sent(effects.requests) == {}
    assert going == DeletionProgress(requested={(2, 0)}, halted=True)


# -- a broker shuts down


def shuts_down(
    state: ControllerState, broker_id: int, epoch: int | None = None
) -> ControllerEffects:
    epoch = EPOCH + broker_id if epoch is None else epoch
    return shutdown.controlled_shutdown(state, ControlledShutdownRequest(broker_id, epoch))


def test_controlled_shutdown_moves_leaders_and_stops_followers() -> None:
    state = controller_state(
        LED,
        replace(LED, leader=2),
        replace(LED, replicas=(1,), isr=(1,)),
        NEVER,
        replace(LED, leader=2, isr=(2, 3)),
        replace(LED, replicas=(2, 3), isr=(2, 3), leader=2),
    )
    effects = shuts_down(state, 1)
    assert state.shutting_down == {1}
    assert stop_replica_sent(effects.requests) == {1: [("t", 1, False), ("t", 4, False)]}
    assert [type(each.request) for each in effects.requests] == [StopReplicaRequest]
    assert len(effects.decisions) == 3
    assert decided_states(state, effects) == [(0, 2, (2, 3)), (1, 2, (2, 3))]


def test_controlled_shutdown_names_partitions_that_it_could_not_move() -> None:
    state = controller_state(replace(LED, isr=(1,)), LED, replace(LED, replicas=(1,), isr=(1,)))
    with_topic(state, "s", replace(LED, isr=(1,)), replace(LED, leader=2))
    effects = shuts_down(state, 1)
    assert reply(state, effects) == ControlledShutdownResponse(
        error_code=ErrorCode.NONE,
        remaining_partitions=[
            RemainingPartition("s", 0),
            RemainingPartition("t", 0),
            RemainingPartition("t", 1),
        ],
    )
    for change in changes(state, effects):
        state.image = change.apply_to(state.image)
    assert reply(state, effects).remaining_partitions == [
        RemainingPartition("s", 0),
        RemainingPartition("t", 0),
    ]


def test_brokers_that_shut_down_together_do_not_take_over_from_each_other() -> None:
    state = controller_state(LED)
    shuts_down(state, 2)
    assert decided_states(state, shuts_down(state, 1)) == [(0, 3, (3,))]


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (EPOCH + 1, ErrorCode.NONE),
        (EPOCH + 2, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
        (EPOCH, ErrorCode.STALE_BROKER_EPOCH),
        (0, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_controlled_shutdown_accepts_current_later_and_unknown_epochs(
    epoch: int, error: ErrorCode
) -> None:
    state = controller_state(LED)
    effects = shuts_down(state, 1, epoch)
    assert reply(state, effects).error_code == error
    assert state.shutting_down == (set() if error else {1})


def test_controlled_shutdown_of_an_unregistered_broker_is_broker_not_available() -> None:
    state = controller_state(LED, away=3)
    effects = shuts_down(state, 3)
    assert effects.reply == ControlledShutdownResponse(ErrorCode.BROKER_NOT_AVAILABLE)
    assert state.shutting_down == set()


def test_controlled_shutdown_changes_nothing_after_a_restart_or_topic_deletion() -> None:
    state = controller_state(LED, replace(LED, leader=2))
    effects = shuts_down(state, 1)
    image = state.image
    state.image = MarkForDeletion("t", T).apply_to(image)
    assert decided_states(state, effects) == []
    state.image = controller_state(replace(LED, replicas=(2, 3), leader=2, isr=(2, 3))).image
    assert decided_states(state, effects) == []
    state.image = image
    state.shutting_down.clear()
    assert decided_states(state, effects) == []
