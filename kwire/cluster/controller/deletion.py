"""Topics that go: their replicas first, on all brokers, then what the store has of them.

A broker is told to delete its replicas once; where one answers with an error, or goes, the topic's
deletion is halted until a broker with one of its replicas starts, or a reassignment of it ends, or
another controller takes over.  A topic is deleted while none of it is reassigned.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kwire.cluster.controller.effects import Effects
from kwire.cluster.controller.propagation import Batch
from kwire.cluster.controller.state import ControllerState, Deletion, Place
from kwire.cluster.metadata.changes import DeleteTopic
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


def taken_up(state: ControllerState) -> list[str]:
    """Note the topics that are marked by now; returns those that were not before."""
    if not state.settings.config.delete_topic_enable:
        return []
    new = [topic for topic in sorted(state.image.deleting) if topic not in state.deletions]
    for topic in new:
        reassigned = any(place in state.reassigned for place in state.places(topic))
        state.deletions[topic] = Deletion(halted=reassigned)
    return new


def halt_where_replicas_are_away(state: ControllerState) -> None:
    """A new controller does not begin to delete before all replicas are there."""
    for topic, deletion in state.deletions.items():
        deletion.halted |= any(
            not state.online((topic, index))(broker_id)
            for broker_id, index in _replicas(state, topic)
        )


def resume(state: ControllerState, topics: Iterable[str], *, anew: bool = False) -> Effects:
    """Go on where nothing is under way; `anew`: what was in the way may be so no longer."""
    batch, effects = Batch(state), Effects()
    for topic in topics:
        deletion = state.deletions.get(topic)
        if deletion is None:
            continue
        replicas = set(_replicas(state, topic))
        if replicas <= deletion.done:
            effects.decisions.append(partial(_deleted, topic))
            continue
        if anew:
            deletion.halted = any(place in state.reassigned for place in state.places(topic))
        if deletion.halted or deletion.asked:
            continue
        batch.show(state.places(topic))
        for broker_id, index in sorted(replicas - deletion.done):
            if state.online((topic, index))(broker_id):
                batch.stop([broker_id], (topic, index), delete=True)
                deletion.asked.add((broker_id, index))
            else:
                deletion.halted = True
    effects.requests = batch.requests()
    return effects


def answered(
    state: ControllerState,
    broker_id: int,
    request: StopReplicaRequest,
    response: StopReplicaResponse,
) -> Effects:
    errors = {
        (each.topic_name, each.partition_index): each.error_code
        for each in response.partition_errors
    }
    concerned = []
    for topic in request.topic_states:
        deletion = state.deletions.get(topic.topic_name)
        if deletion is None:
            continue
        concerned.append(topic.topic_name)
        for each in topic.partition_states:
            replica = (broker_id, each.partition_index)
            if not each.delete_partition or replica not in deletion.asked:
                continue
            deletion.asked.discard(replica)
            place = (topic.topic_name, each.partition_index)
            if response.error_code or errors.get(place, ErrorCode.UNKNOWN_SERVER_ERROR):
                deletion.halted = True
            else:
                deletion.done.add(replica)
    return resume(state, concerned)


def failed(state: ControllerState, broker_id: int, places: Iterable[Place]) -> None:
    """A broker, or its disk, is gone with replicas that were to be deleted."""
    for topic, index in places:
        deletion = state.deletions.get(topic)
        if deletion is not None and (broker_id, index) not in deletion.done:
            deletion.asked.discard((broker_id, index))
            deletion.halted = True


def _replicas(state: ControllerState, topic: str) -> Iterable[tuple[int, int]]:
    known = state.image.topics.get(topic)
    for index, partition in enumerate(() if known is None else known.partitions):
        for broker_id in partition.replicas:
            yield broker_id, index


def _deleted(topic: str, image: ClusterImage) -> DeleteTopic | None:
    known = image.topics.get(topic)
    if known is None or topic not in image.deleting:
        return None
    return DeleteTopic(topic, known.id)
