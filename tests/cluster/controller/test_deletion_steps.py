"""Deletion of topics: requests to delete replicas, their responses, and halted deletions."""

from __future__ import annotations

from dataclasses import replace

from kwire.cluster.controller import deletion
from kwire.cluster.controller.state import DeletionProgress
from kwire.cluster.metadata.changes import CreateTopic, DeleteTopic, MarkForDeletion
from kwire.cluster.metadata.image import TopicImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kwire.settings import BrokerConfig
from tests.cluster.controller.test_controller_decisions import LED, PARTITION, controller_state
from tests.cluster.controller.test_liveness import stop_replica_sent, update_metadata_sent
from tests.cluster.controller.test_term import NEVER, StartedController, image_of

T = b"t" * 16


def test_marked_topic_is_deleted_on_all_brokers_then_in_the_store() -> None:
    started = StartedController(image_of(replace(LED, replicas=(1, 2), isr=(1, 2)), NEVER))
    effects = started.changed(MarkForDeletion("t", T))
    assert stop_replica_sent(effects.requests) == {
        each: [("t", 0, True), ("t", 1, True)] for each in (1, 2)
    }
    assert update_metadata_sent(effects.requests) == {each: [PARTITION] for each in (1, 2, 3)}
    assert effects.decisions == []
    requests = [each for each in effects.requests if isinstance(each.request, StopReplicaRequest)]
    after = [started.machine.response_received(each, all_stopped("t", 0, 1)) for each in requests]
    assert [len(each.decisions) for each in after] == [0, 1]
    assert [decide(started.state.image) for decide in after[1].decisions] == [DeleteTopic("t", T)]
    effects = started.changed(DeleteTopic("t", T))
    assert (effects.requests, effects.decisions) == ([], [])
    assert started.state.deletions == {}
    assert after[1].decisions[0](started.state.image) is None


def test_topic_recreated_since_is_not_deleted() -> None:
    state = controller_state(LED)
    state.deletions["t"] = DeletionProgress(deleted={(1, 0), (2, 0), (3, 0)})
    effects = deletion.resume(state, ["t"])
    assert [decide(state.image) for decide in effects.decisions] == [None]


def all_stopped(topic: str, *indexes: int) -> StopReplicaResponse:
    return StopReplicaResponse(
        partition_errors=[StopReplicaPartitionError(topic, each, 0) for each in indexes]
    )


def test_response_advances_only_the_deletions_that_it_names() -> None:
    image = image_of(LED, topics={"s": LED, "r": LED})
    for name in "srt":
        image = MarkForDeletion(name, name.encode() * 16).apply_to(image)
    started = StartedController(image)
    [request] = [
        each
        for each in started.start_effects.requests
        if isinstance(each.request, StopReplicaRequest) and each.broker_id == 2
    ]
    response = all_stopped("r", 0)
    response.partition_errors.append(
        StopReplicaPartitionError("s", 0, ErrorCode.KAFKA_STORAGE_ERROR)
    )
    effects = started.machine.response_received(request, response)
    others = {(1, 0), (3, 0)}
    assert started.state.deletions == {
        "r": DeletionProgress(requested=others, deleted={(2, 0)}),
        "s": DeletionProgress(requested=others, halted=True),
        "t": DeletionProgress(requested=others, halted=True),  # it says nothing of it
    }
    assert (effects.requests, effects.decisions) == ([], [])


def test_response_with_a_top_level_error_halts_the_deletion() -> None:
    started = StartedController(MarkForDeletion("t", T).apply_to(image_of(LED)))
    [request] = [
        each
        for each in started.start_effects.requests
        if isinstance(each.request, StopReplicaRequest) and each.broker_id == 1
    ]
    response = all_stopped("t", 0)
    response.error_code = ErrorCode.STALE_BROKER_EPOCH
    started.machine.response_received(request, response)
    assert started.state.deletions == {
        "t": DeletionProgress(requested={(2, 0), (3, 0)}, halted=True)
    }


def test_response_about_an_unknown_topic_does_not_stop_other_deletions() -> None:
    started = StartedController(MarkForDeletion("t", T).apply_to(image_of(LED, topics={"s": LED})))
    [request] = [
        each
        for each in started.start_effects.requests
        if isinstance(each.request, StopReplicaRequest) and each.broker_id == 1
    ]
    assert isinstance(request.request, StopReplicaRequest)
    other = replace(request.request.topic_states[0], topic_name="gone")
    request.request.topic_states.insert(0, other)
    started.machine.response_received(request, all_stopped("t", 0))
    assert started.state.deletions["t"].deleted == {(1, 0)}


def test_no_topic_is_deleted_if_deletion_is_off() -> None:
    config = BrokerConfig({"node.id": "1", "delete.topic.enable": "false"})
    started = StartedController(MarkForDeletion("t", T).apply_to(image_of(LED)), config)
    assert started.state.deletions == {}


def test_marked_topics_are_noted_once_in_order() -> None:
    state = controller_state(LED)
    for name in "ba":
        made = CreateTopic(TopicImage(name, name.encode() * 16, (LED,)))
        state.image = made.apply_to(state.image)
    for name in "tab":
        state.image = MarkForDeletion(name, name.encode() * 16).apply_to(state.image)
    state.deletions["b"] = partition = DeletionProgress(deleted={(1, 0)})
    assert deletion.note_marked_topics(state) == ["a", "t"]
    assert state.deletions == {"b": partition, "a": DeletionProgress(), "t": DeletionProgress()}
    assert deletion.note_marked_topics(state) == []


def test_resumed_deletion_requests_only_undeleted_replicas_without_pending_request() -> None:
    for going, asked in (
        (DeletionProgress(requested={(1, 0)}), {}),
        (DeletionProgress(halted=True), {}),
        (DeletionProgress(deleted={(1, 0)}), {2: [("t", 0, True)], 3: [("t", 0, True)]}),
    ):
        state = controller_state(LED)
        state.deletions["t"] = going
        assert stop_replica_sent(deletion.resume(state, ["n", "t"]).requests) == asked
    state = controller_state(LED, away=2)
    state.deletions["t"] = going = DeletionProgress(halted=True)
    effects = deletion.resume(state, ["t"], anew=True)
    assert stop_replica_sent(effects.requests) == {1: [("t", 0, True)], 3: [("t", 0, True)]}
    assert going == DeletionProgress(requested={(1, 0), (3, 0)}, halted=True)
    state.deletions["s"] = DeletionProgress()
    assert len(deletion.resume(state, ["s", "t"]).decisions) == 1, "of it there is nothing left"


def test_resume_continues_past_topics_that_wait_or_are_deleted() -> None:
    """Nothing has to be sent for the first three topics."""
    state = controller_state(LED)
    for name in "abcd":
        made = CreateTopic(TopicImage(name, name.encode() * 16, (LED,)))
        state.image = made.apply_to(state.image)
    state.deletions = {
        "b": DeletionProgress(deleted={(1, 0), (2, 0), (3, 0)}),
        "c": DeletionProgress(halted=True),
        "d": DeletionProgress(),
    }
    effects = deletion.resume(state, "abcd")
    assert stop_replica_sent(effects.requests) == {each: [("d", 0, True)] for each in (1, 2, 3)}
    assert len(effects.decisions) == 1


def test_failed_replicas_halt_only_their_own_topics() -> None:
    state = controller_state(LED, LED)
    going = {
        "s": DeletionProgress(requested={(1, 0)}),
        "t": DeletionProgress(requested={(1, 0), (1, 1)}, deleted={(2, 0)}),
    }
    state.deletions = {**going}
    deletion.replicas_failed(state, 1, [("n", 0), ("t", 1)])
    assert going == {
        "s": DeletionProgress(requested={(1, 0)}),
        "t": DeletionProgress(requested={(1, 0)}, deleted={(2, 0)}, halted=True),
    }
