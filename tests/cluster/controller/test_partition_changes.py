"""Changes of partition states, the replicas in them, and the requests that follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.cluster.controller import deletion, liveness, reassignment
from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.propagation import EPOCH_DURING_DELETE, BrokerRequestBatch
from kwire.cluster.controller.state import ControllerState, DeletionProgress
from kwire.cluster.metadata.changes import AlterPartition, Conflict, MarkForDeletion, apply_all
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kwire.codecs.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from tests.cluster.controller.test_controller_decisions import (
    LED,
    MOVING,
    PARTITION,
    changes,
    controller_state,
)

OTHER = ("t", 1)


def altered(state: ControllerState, after: PartitionImage) -> AlterPartition:
    change = state.alteration(state.image, PARTITION, after)
    assert change is not None
    return change


# -- the change


@pytest.mark.parametrize("ahead", [0, 1])
def test_change_has_the_controller_epoch_of_its_image(ahead: int) -> None:
    """Not that of the former state, nor of an image that the controller has not seen."""
    state = controller_state(replace(LED, controller_epoch=4))
    image = replace(state.image, controller_epoch=state.image.controller_epoch + ahead)
    change = state.alteration(image, PARTITION, replace(LED, isr=(1, 2), partition_epoch=8))
    assert change is not None
    assert change.state == replace(LED, isr=(1, 2), partition_epoch=8, controller_epoch=9 + ahead)


def test_change_has_the_partition_epoch_of_its_image() -> None:
    """It may skip epochs, and conflicts once another change was committed."""
    state = controller_state(LED)
    change = altered(state, replace(LED, partition_epoch=12))
    assert (change.partition_epoch, change.state.partition_epoch) == (7, 12)
    other = altered(state, replace(LED, isr=(1, 3), partition_epoch=8))
    moved_on = apply_all(state.image, [other])
    with pytest.raises(Conflict, match="is at partition epoch 8"):
        change.apply_to(moved_on)


def test_change_without_a_larger_partition_epoch_is_a_conflict() -> None:
    state = controller_state(LED)
    with pytest.raises(Conflict):
        altered(state, replace(LED, isr=(1,))).apply_to(state.image)


def test_change_needs_an_existing_partition_and_another_state() -> None:
    state, after = controller_state(LED), replace(LED, partition_epoch=8)
    partition = state.partition(PARTITION)
    assert state.alteration(state.image, PARTITION, partition) is None
    assert state.alteration(state.image, PARTITION, None) is None
    assert state.alteration(state.image, OTHER, after) is None
    assert state.alteration(state.image, ("n", 0), after) is None


# -- who may lead and be in sync


def test_replica_whose_disk_failed_is_neither_online_nor_reachable() -> None:
    state = controller_state(LED, LED)
    state.offline[2] = {PARTITION}
    for may in (state.online, state.reachable):
        assert list(map(may(PARTITION), (1, 2, 3))) == [True, False, True]
        assert list(map(may(OTHER), (1, 2, 3))) == [True, True, True]


def test_replica_that_shuts_down_is_reachable_and_not_online() -> None:
    state = controller_state(LED)
    state.shutting_down.add(2)
    assert list(map(state.online(PARTITION), (1, 2, 3))) == [True, False, True]
    assert list(map(state.reachable(PARTITION), (1, 2, 3))) == [True, True, True]


def test_absent_replica_is_neither_online_nor_reachable() -> None:
    state = controller_state(LED, away=3)
    for may in (state.online, state.reachable):
        assert list(map(may(PARTITION), (1, 2, 3))) == [True, True, False]


def test_replica_on_a_failed_disk_is_not_elected_when_the_leader_leaves() -> None:
    state = controller_state(LED)
    partition_errors = [LeaderAndIsrPartitionError("", 0, ErrorCode.KAFKA_STORAGE_ERROR)]
    response = LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(b"t" * 16, partition_errors)])
    liveness.leader_and_isr_answered(state, 2, response)
    change = liveness._remove_replica(state, 1, PARTITION, state.image)
    assert change is not None
    assert (change.state.leader, change.state.isr) == (3, (3,))


# -- the end of a reassignment

REPLACED = replace(LED, isr=(1, 2, 3), adding=(3,), removing=(2,))
LEADER_GOES = replace(LED, replicas=(2, 3, 1), isr=(1, 3, 2), adding=(3,), removing=(1,))


def completed(partition: PartitionImage, *, failed: int | None = None) -> PartitionImage | None:
    """The state after a reassignment, if it can end; the disk of one broker may have failed."""
    state = controller_state(partition)
    if failed is not None:
        state.offline[failed] = {PARTITION}
    made = changes(
        state, ControllerEffects(decisions=[reassignment.completion_decision(state, PARTITION)])
    )
    return replace(made[0].state, controller_epoch=0) if made else None


def test_reassignment_ends_with_its_leader_if_that_is_a_target() -> None:
    assert completed(REPLACED) == PartitionImage(1, 6, 8, replicas=(1, 3), isr=(1, 3))


def test_reassignment_ends_with_the_first_target_if_its_leader_is_removed() -> None:
    assert completed(LEADER_GOES) == PartitionImage(2, 6, 8, replicas=(2, 3), isr=(3, 2))


def test_reassignment_ends_with_a_leader_whose_disk_works() -> None:
    after = completed(REPLACED, failed=1)
    assert after is not None
    assert (after.leader, after.leader_epoch) == (3, 6)
    after = completed(LEADER_GOES, failed=2)
    assert after is not None
    assert (after.leader, after.leader_epoch) == (3, 6)


@pytest.mark.parametrize("partition", [LED, MOVING, replace(REPLACED, isr=(3, 2))])
def test_reassignment_does_not_end_before_all_targets_are_in_sync(
    partition: PartitionImage,
) -> None:
    assert completed(partition) is None


def test_reassignment_that_cannot_end_is_sent_again() -> None:
    state = controller_state(MOVING)
    [change] = changes(
        state, ControllerEffects(decisions=[reassignment.resumption_decision(state, PARTITION)])
    )
    assert change.state == replace(MOVING, leader_epoch=6, partition_epoch=8, controller_epoch=9)


def test_reassignment_that_can_end_ends_when_it_is_resumed() -> None:
    state = controller_state(REPLACED)
    [change] = changes(
        state, ControllerEffects(decisions=[reassignment.resumption_decision(state, PARTITION)])
    )
    assert (change.state.replicas, change.state.adding, change.state.removing) == ((1, 3), (), ())


def test_reassignment_to_fewer_in_sync_replicas_ends_at_once() -> None:
    state = controller_state(LED)
    after = reassignment.reassigning_state(LED, (3, 1), state.online(PARTITION), unclean=False)
    assert after == PartitionImage(1, 6, 8, replicas=(3, 1), isr=(1, 3))
    after = reassignment.reassigning_state(LED, (3, 2), state.online(PARTITION), unclean=False)
    assert after == PartitionImage(3, 6, 8, replicas=(3, 2), isr=(2, 3))


# -- the leader epoch that a stop names


def stops(
    requests: ControllerEffects | BrokerRequestBatch,
) -> dict[int, list[StopReplicaPartitionState]]:
    """The replicas of topic `t` that each broker is asked to stop."""
    sent = requests.requests if isinstance(requests, ControllerEffects) else requests.requests()
    return {
        each.broker_id: each.request.topic_states[0].partition_states
        for each in sent
        if isinstance(each.request, StopReplicaRequest)
    }


@pytest.mark.parametrize("delete", [True, False])
def test_stop_replica_has_the_leader_epoch(delete: bool) -> None:
    """A broker with a later epoch ignores it: it may have the partition again."""
    batch = BrokerRequestBatch(controller_state(LED))
    batch.add_stop_replica([2], PARTITION, delete=delete)
    assert stops(batch) == {2: [StopReplicaPartitionState(0, 5, delete)]}


def test_stop_replica_of_a_deleted_partition_has_no_leader_epoch() -> None:
    batch = BrokerRequestBatch(controller_state(LED))
    batch.add_stop_replica([2], ("t", 3), delete=True)
    assert stops(batch) == {2: [StopReplicaPartitionState(3, NO_LEADER, True)]}


def test_stop_replica_of_a_topic_being_deleted_has_the_epoch_above_all() -> None:
    state = controller_state(LED)
    state.image = apply_all(state.image, [MarkForDeletion("t", b"t" * 16)])
    deletion.note_marked_topics(state)
    asked = stops(deletion.resume(state, ["t"]))
    assert asked == {
        each: [StopReplicaPartitionState(0, EPOCH_DURING_DELETE, True)] for each in (1, 2, 3)
    }


def test_stop_replica_is_sent_once_to_each_undeleted_replica() -> None:
    state = controller_state(LED)
    state.image = apply_all(state.image, [MarkForDeletion("t", b"t" * 16)])
    state.deletions["t"] = DeletionProgress(deleted={(1, 0)})
    assert stops(deletion.resume(state, ["t"])).keys() == {2, 3}
    assert stops(deletion.resume(state, ["t"])) == {}
