"""Deletion of topics: brokers delete all replicas first, then the store deletes the topic.

The controller sends StopReplica once for each replica.  If a broker answers with an error, or is
gone, the deletion of the topic halts.  It resumes when a broker with a replica of the topic starts,
when a reassignment of the topic ends, or when another controller is elected.  A deletion waits
while a partition of the topic is being reassigned.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.propagation import BrokerRequestBatch
from kwire.cluster.controller.state import ControllerState, DeletionProgress, TopicPartition
from kwire.cluster.metadata.changes import DeleteTopic
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


def note_marked_topics(state: ControllerState) -> list[str]:
    """Begins to follow the topics that are newly marked for deletion; returns their names."""
    if not state.settings.config.delete_topic_enable:
        return []
    new = [topic for topic in sorted(state.image.deleting) if topic not in state.deletions]
    for topic in new:
        reassigned = any(
            topic_partition in state.reassigned for topic_partition in state.partitions_of(topic)
        )
        state.deletions[topic] = DeletionProgress(halted=reassigned)
    return new


def halt_where_replicas_are_offline(state: ControllerState) -> None:
    """Halt the deletion of topics that have an offline replica, as a new controller does."""
    for topic, deletion in state.deletions.items():
        deletion.halted |= any(
            not state.online((topic, index))(broker_id)
            for broker_id, index in _replicas(state, topic)
        )


def resume(
    state: ControllerState, topics: Iterable[str], *, anew: bool = False
) -> ControllerEffects:
    """Continues these deletions: stops and deletes replicas, or deletes topics that have none left.

    Nothing is sent for a topic while a request for it is unanswered.  `anew` also tries deletions
    that are halted: the obstacle may be gone.
    """
    batch, effects = BrokerRequestBatch(state), ControllerEffects()
    for topic in topics:
        deletion = state.deletions.get(topic)
        if deletion is None:
            continue
        replicas = set(_replicas(state, topic))
        if replicas <= deletion.deleted:
            effects.decisions.append(partial(_delete_topic, topic))
            continue
        if anew:
            deletion.halted = any(
                topic_partition in state.reassigned
                for topic_partition in state.partitions_of(topic)
            )
        if deletion.halted or deletion.requested:
            continue
        # Metadata names a topic that is being deleted without leaders (LEADER_DURING_DELETE).
        batch.add_update_metadata(state.partitions_of(topic))
        for broker_id, index in sorted(replicas - deletion.deleted):
            if state.online((topic, index))(broker_id):
                batch.add_stop_replica([broker_id], (topic, index), delete=True)
                deletion.requested.add((broker_id, index))
            else:
                deletion.halted = True
    effects.requests = batch.requests()
    return effects


def stop_replica_answered(
    state: ControllerState,
    broker_id: int,
    request: StopReplicaRequest,
    response: StopReplicaResponse,
) -> ControllerEffects:
    """Notes which replicas a broker has deleted; halts deletions of which one failed.

    A replica in a failed log directory is offline from then on, so that the deletion goes on once
    the broker can use the directory again.
    """
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
            if not each.delete_partition or replica not in deletion.requested:
                continue
            deletion.requested.discard(replica)
            topic_partition = (topic.topic_name, each.partition_index)
            error = errors.get(topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if response.error_code or error:
                deletion.halted = True
                if error == ErrorCode.KAFKA_STORAGE_ERROR:
                    state.offline.setdefault(broker_id, set()).add(topic_partition)
            else:
                deletion.deleted.add(replica)
    return resume(state, concerned)


def replicas_failed(
    state: ControllerState, broker_id: int, topic_partitions: Iterable[TopicPartition]
) -> None:
    """Halt the deletions of topics whose replicas a failed broker or log directory holds."""
    for topic, index in topic_partitions:
        deletion = state.deletions.get(topic)
        if deletion is not None and (broker_id, index) not in deletion.deleted:
            deletion.requested.discard((broker_id, index))
            deletion.halted = True


def _replicas(state: ControllerState, topic: str) -> Iterable[tuple[int, int]]:
    """The replicas of a topic as (broker id, partition index)."""
    topic_image = state.image.topics.get(topic)
    for index, partition in enumerate(() if topic_image is None else topic_image.partitions):
        for broker_id in partition.replicas:
            yield broker_id, index


def _delete_topic(topic: str, image: ClusterImage) -> DeleteTopic | None:
    """A decision: delete the topic from the store, unless it is a new one of the same name."""
    topic_image = image.topics.get(topic)
    if topic_image is None or topic not in image.deleting:
        return None
    return DeleteTopic(topic, topic_image.id)
