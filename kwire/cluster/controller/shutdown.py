"""ControlledShutdown (key 7), v0-3: a broker that is about to go gives up what it leads.

Behaviour
- Partitions that it leads get another leader, if another replica is in sync; those that are left
  are named in the answer, and the broker asks again, or goes all the same.
- It stops following, and is in no ISR any longer.  Partitions with one replica stay as they are.
- Until it is gone it cannot lead or come into sync again.
- A request of an earlier registration: STALE_BROKER_EPOCH; a broker that is not registered:
  BROKER_NOT_AVAILABLE.
"""

from __future__ import annotations

from functools import partial

from kwire.cluster.controller.effects import Effects
from kwire.cluster.controller.propagation import Batch
from kwire.cluster.controller.state import ControllerState, Place, partition_of
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


def controlled_shutdown(state: ControllerState, request: ControlledShutdownRequest) -> Effects:
    broker_id = request.broker_id
    epoch = state.members.get(broker_id)
    if epoch is None:
        return Effects(reply=ControlledShutdownResponse(ErrorCode.BROKER_NOT_AVAILABLE))
    if request.broker_epoch != UNKNOWN_EPOCH and request.broker_epoch < epoch:
        return Effects(reply=ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH))
    state.shutting_down.add(broker_id)
    batch = Batch(state)
    hosted = sorted(state.hosted.get(broker_id, ()))
    concerned = [place for place in hosted if _is_moved(state, place)]
    for place in concerned:
        known = state.partition(place)
        if known is not None and known.leader != broker_id:
            batch.stop([broker_id], place, delete=False)
    return Effects(
        requests=batch.requests(),
        decisions=[partial(_leave, state, broker_id, place) for place in concerned],
        then=lambda: Effects(reply=_remaining(state, broker_id)),
    )


def _is_moved(state: ControllerState, place: Place) -> bool:
    known = state.partition(place)
    is_known = known is not None and len(known.replicas) > 1 and not is_new(known)
    return is_known and not state.is_deleting(place[0])


def _leave(
    state: ControllerState, broker_id: int, place: Place, image: ClusterImage
) -> AlterPartition | None:
    known = partition_of(image, place)
    if broker_id not in state.shutting_down:  # it went, and may be back
        return None
    if known is None or broker_id not in known.replicas or place[0] in image.deleting:
        return None
    if known.leader == broker_id:
        after = elected_for_shutdown(known, state.reachable(place), state.shutting_down)
    else:
        after = without_replica(known, broker_id)
    return state.alteration(image, place, after)


def _remaining(state: ControllerState, broker_id: int) -> ControlledShutdownResponse:
    left = []
    for place in sorted(state.hosted.get(broker_id, ())):
        known = state.partition(place)
        if known is not None and known.leader == broker_id and _is_moved(state, place):
            left.append(RemainingPartition(*place))
    return ControlledShutdownResponse(remaining_partitions=left)
