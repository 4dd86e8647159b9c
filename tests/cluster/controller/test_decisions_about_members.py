"""Decisions and requests when brokers are absent, start, shut down or lose a disk."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.cluster.controller import deletion, elections, isr, liveness, shutdown
from kwire.cluster.controller.effects import BrokerRequest, ControllerEffects
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.controller.state import ControllerState, DeletionProgress
from kwire.cluster.metadata.changes import MarkForDeletion, apply_all
from kwire.cluster.metadata.image import PartitionImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kwire.codecs.messages.controlled_shutdown import ControlledShutdownRequest
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest
from tests.cluster.controller.simulation import Host
from tests.cluster.controller.test_controller_decisions import (
    CONFIG,
    EPOCH,
    LED,
    MOVING,
    PARTITION,
    broker,
    changes,
    controller_state,
    reply,
    stopped,
)


def marked(*partitions: PartitionImage, away: int | None = None) -> ControllerState:
    """A controller whose topic `t` is marked for deletion."""
    state = controller_state(*partitions, away=away)
    state.image = apply_all(state.image, [MarkForDeletion("t", b"t" * 16)])
    return state


def disk_failed(error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> LeaderAndIsrResponse:
    failed = [LeaderAndIsrPartitionError("", 0, error)]
    return LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(b"t" * 16, failed)])


# -- the ISR


def test_present_isr_is_confirmed_for_any_partition_epoch() -> None:
    state = controller_state(LED)
    asked = RequestPartitionData(0, 5, [1, 2, 3], partition_epoch=6)
    request = AlterPartitionRequest(1, EPOCH + 1, [RequestTopicData(b"t" * 16, [asked])])
    effects = isr.alter_partition(state, request)
    assert changes(state, effects) == []
    answer = reply(state, effects).topics[0].partitions[0]
    assert (answer.error_code, answer.partition_epoch) == (ErrorCode.NONE, 7)


# -- brokers that are away


def test_leader_that_restarted_is_removed_although_it_is_back() -> None:
    state = controller_state(LED)
    [change] = [liveness._remove_replica(state, 1, PARTITION, state.image)]
    assert change is not None
    assert (change.state.leader, change.state.isr) == (2, (2, 3))


def test_leader_is_elected_when_a_follower_leaves_after_the_leader() -> None:
    state = controller_state(LED, away=1)
    change = liveness._remove_replica(state, 2, PARTITION, state.image)
    assert change is not None
    assert (change.state.leader, change.state.isr) == (3, (3,))


def test_partitions_of_a_starting_broker_are_sent_to_all() -> None:
    state = controller_state(replace(LED, leader=3), away=3)
    state.image = state.image.with_broker(broker(3))
    effects = liveness.start_brokers(state, {3: EPOCH + 3})
    shown = {
        each.broker_id: [topic.topic_name for topic in each.request.topic_states]
        for each in effects.requests
        if isinstance(each.request, UpdateMetadataRequest)
    }
    assert shown == {1: ["t"], 2: ["t"], 3: ["t"]}
    led = [
        each.broker_id for each in effects.requests if isinstance(each.request, LeaderAndIsrRequest)
    ]
    assert led == [3]
    assert state.leaderless == set(), "its leader is there again"


def test_member_is_not_started_again() -> None:
    effects = liveness.start_brokers(controller_state(LED), {3: EPOCH + 3})
    assert (effects.requests, effects.decisions) == ([], [])


def test_replica_on_a_failed_disk_is_stopped_and_removed_from_isr() -> None:
    state = controller_state(LED)
    effects = liveness.leader_and_isr_answered(state, 1, disk_failed())
    stops = [each for each in effects.requests if isinstance(each.request, StopReplicaRequest)]
    assert [each.broker_id for each in stops] == [1]
    assert isinstance(stops[0].request, StopReplicaRequest)
    assert not stops[0].request.topic_states[0].partition_states[0].delete_partition
    [change] = changes(state, effects)
    assert (change.state.leader, change.state.isr) == (2, (2, 3))


def test_response_of_an_earlier_broker_epoch_is_ignored() -> None:
    machine = ClusterController(Host(1, CONFIG, CONFIG), controller_state(LED).image)
    machine.start()
    sent = BrokerRequest(2, EPOCH + 1, LeaderAndIsrRequest())
    effects = machine.response_received(sent, disk_failed())
    assert (effects.requests, effects.decisions) == ([], [])
    assert machine.state.offline == {}


# -- elections


def test_absent_leader_is_replaced_and_live_leader_is_not() -> None:
    state = controller_state(replace(LED, leader=3), LED, away=3)
    effects = ControllerEffects(decisions=elections.leader_elections(state, [PARTITION, ("t", 1)]))
    assert [(each.index, each.state.leader) for each in changes(state, effects)] == [(0, 1)]


def test_partition_of_a_deleted_topic_gets_no_leader() -> None:
    state = marked(replace(LED, leader=-1))
    [decide] = elections.leader_elections(state, [PARTITION])
    assert decide(state.image) is None


def test_balancing_starts_when_more_than_a_tenth_has_another_leader() -> None:
    elsewhere = replace(LED, leader=2)
    assert elections.balance_leaders(controller_state(*[LED] * 9, elsewhere)).decisions == []
    assert len(elections.balance_leaders(controller_state(*[LED] * 8, elsewhere)).decisions) == 1


def test_unclean_election_is_held_if_the_leader_shuts_down() -> None:
    state = controller_state(LED)
    state.shutting_down.add(1)
    request = ElectLeadersRequest(elections.UNCLEAN, [TopicPartitions("t", [0])])
    [change] = changes(state, elections.elect_leaders(state, request))
    assert change.state.leader == 2


# -- shutdown


def test_controlled_shutdown_does_not_move_partitions_of_a_deleted_topic() -> None:
    state = marked(LED)
    deletion.note_marked_topics(state)
    effects = shutdown.controlled_shutdown(state, ControlledShutdownRequest(1, EPOCH + 1))
    assert effects.decisions == []
    assert reply(state, effects).remaining_partitions == []


# -- deletions


def test_deletion_halts_on_an_error_and_counts_only_requested_replicas() -> None:
    state = marked(LED, LED)
    going = state.deletions["t"] = DeletionProgress(requested={(2, 0), (3, 0)})
    errors = [
        StopReplicaPartitionError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR),
        StopReplicaPartitionError("t", 1, ErrorCode.NONE),
    ]
    response = StopReplicaResponse(partition_errors=errors)
    deletion.stop_replica_answered(state, 2, stopped({0: True, 1: True}), response)
    assert going == DeletionProgress(requested={(3, 0)}, halted=True)


def test_deletion_waits_until_a_reassignment_ends() -> None:
    state = marked(MOVING)
    assert deletion.note_marked_topics(state) == ["t"]
    assert state.deletions["t"].halted
    assert deletion.resume(state, ["t"], anew=True).requests == []
    assert state.deletions["t"].halted


@pytest.mark.parametrize("is_done", [True, False])
def test_deletion_halts_if_an_undeleted_replica_is_offline(is_done: bool) -> None:
    state = marked(LED, away=3)
    done = {(3, 0)} if is_done else set()
    going = state.deletions["t"] = DeletionProgress(deleted=done)
    deletion.replicas_failed(state, 3, [PARTITION])
    assert going.halted == (not is_done)
    going.halted = False
    deletion.resume(state, ["t"])
    assert going.halted == (not is_done)
    assert going.requested == {(1, 0), (2, 0)}
