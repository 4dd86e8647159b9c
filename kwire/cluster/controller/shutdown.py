"""ControlledShutdown (key 7), v0-3: other brokers take over what a stopping broker leads.

Behaviour
- Partitions that the broker leads get another in-sync replica as leader.  The response names those
  without one; the broker then sends the request again, or stops all the same.
- The broker stops following the other partitions and leaves their ISR.  Partitions with a single
  replica stay as they are.
- Until the broker is gone, it can neither lead nor join an ISR.
- A request of an earlier registration: STALE_BROKER_EPOCH; a broker that is not registered:
  BROKER_NOT_AVAILABLE.
"""

from __future__ import annotations

from functools import partial

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.propagation import BrokerRequestBatch
from kwire.cluster.controller.state import ControllerState, TopicPartition, partition_of
from kwire.cluster.metadata.changes import AlterPartition
from kwire.cluster.metadata.election import elected_for_shutdown, is_new, without_replica
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

UNKNOWN_EPOCH = -1
"""The broker epoch of requests before v2."""


def controlled_shutdown(
    state: ControllerState, request: ControlledShutdownRequest
) -> ControllerEffects:
    """ControlledShutdown: moves leadership from the broker that sends the request.

    The broker also leaves the ISRs.
    """
    broker_id = request.broker_id
    epoch = state.members.get(broker_id)
    if epoch is None:
        return ControllerEffects(reply=ControlledShutdownResponse(ErrorCode.BROKER_NOT_AVAILABLE))
    if request.broker_epoch != UNKNOWN_EPOCH and request.broker_epoch < epoch:
        return ControllerEffects(reply=ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH))
    state.shutting_down.add(broker_id)
    batch = BrokerRequestBatch(state)
    hosted = sorted(state.hosted.get(broker_id, ()))
    concerned = [
        topic_partition for topic_partition in hosted if _is_handed_over(state, topic_partition)
    ]
    for topic_partition in concerned:
        partition = state.partition(topic_partition)
        if partition is not None and partition.leader != broker_id:
            batch.add_stop_replica([broker_id], topic_partition, delete=False)
    return ControllerEffects(
        requests=batch.requests(),
        decisions=[
            partial(_leave, state, broker_id, topic_partition) for topic_partition in concerned
        ],
        then=lambda: ControllerEffects(reply=_remaining(state, broker_id)),
    )


def _is_handed_over(state: ControllerState, topic_partition: TopicPartition) -> bool:
    partition = state.partition(topic_partition)
    can_move = partition is not None and len(partition.replicas) > 1 and not is_new(partition)
    return can_move and not state.is_deleting(topic_partition[0])


def _leave(
    state: ControllerState, broker_id: int, topic_partition: TopicPartition, image: ClusterImage
) -> AlterPartition | None:
    """Return the change by which a broker that shuts down stops to lead or follow a partition.

    A partition that it leads gets another leader; from another one's ISR it is removed.  None if
    nothing has to change or no other replica can lead.
    """
    partition = partition_of(image, topic_partition)
    if broker_id not in state.shutting_down:  # the broker left since, and may have restarted
        return None
    if (
        partition is None
        or broker_id not in partition.replicas
        or topic_partition[0] in image.deleting
    ):
        return None
    if partition.leader == broker_id:
        after = elected_for_shutdown(
            partition, state.reachable(topic_partition), state.shutting_down
        )
    else:
        after = without_replica(partition, broker_id)
    return state.alteration(image, topic_partition, after)


def _remaining(state: ControllerState, broker_id: int) -> ControlledShutdownResponse:
    """Return the response, with the partitions that the broker still leads.

    No other replica of them is in sync.
    """
    left = []
    for topic_partition in sorted(state.hosted.get(broker_id, ())):
        partition = state.partition(topic_partition)
        if (
            partition is not None
            and partition.leader == broker_id
            and _is_handed_over(state, topic_partition)
        ):
            left.append(RemainingPartition(*topic_partition))
    return ControlledShutdownResponse(remaining_partitions=left)
