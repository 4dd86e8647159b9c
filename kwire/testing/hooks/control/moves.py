"""Moves leaders and coordinators to another broker, as an administrator of the cluster would.

A move makes the new leader the first replica (AlterPartitionReassignments), then elects the
preferred leader (ElectLeaders).  So leader epoch and metadata change as in any election, and the
automatic rebalancing of leaders does not undo the move.  A coordinator moves with the leader of its
partition.  A broker without a cluster cannot move a coordinator; the coordinator resigns and loads
its records again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.metadata.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Role
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.testing.hooks.faults.moved import Moved

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cluster.metadata.image import ClusterImage, PartitionImage

log = logging.getLogger("kwire.control")

PATIENCE_MS: Final = 30_000
PREFERRED: Final = 0
GROUP: Final = "group"
TRANSACTIONAL_ID: Final = "transactional_id"


class CannotMove(ValueError):
    """The leader or coordinator was not moved; the message says why."""


async def move_leader(broker: Broker, topic: str, index: int, to: int | None) -> Moved:
    """Move a partition's leader to broker `to`, or to the next in-sync replica if `to` is None.

    Returns when this broker's metadata has the new leader.  Raises CannotMove.
    """
    partition = _partition(broker.image, topic, index)
    target = _target(partition, to, f"{topic}-{index}", broker)
    order = (target, *(replica for replica in partition.replicas if replica != target))
    await _reorder(broker, topic, index, order)
    await _elect(broker, topic, index)

    def target_leads(image: ClusterImage) -> bool:
        return _partition(image, topic, index).leader == target

    if not await broker.membership.wait_until(target_leads, PATIENCE_MS):
        raise CannotMove(f"broker {target} does not lead {topic}-{index} after {PATIENCE_MS} ms")
    epoch = _partition(broker.image, topic, index).leader_epoch
    return Moved(broker.now_ms(), topic, index, partition.leader, target, epoch)


async def move_coordinator(broker: Broker, kind: str, name: str, to: int | None) -> Moved:
    """Move the coordinator of a group or a transactional id, as `move_leader` does.

    Raises CannotMove.
    """
    topic, index = _coordinator_partition(broker, kind, name)
    if broker.membership.replication is not None:
        moved = await move_leader(broker, topic, index, to)
        return moved._replace(of=(kind, name))
    if to not in (None, broker.node_id):
        raise CannotMove(f"there is no broker {to}: this broker is not in a cluster")
    coordinator = broker.coordinators.groups if kind == GROUP else broker.coordinators.transactions
    partition = broker.hosted.led(topic, index)
    coordinator.resign(index)
    coordinator.lead(partition)
    here, epoch = broker.node_id, partition.leader_epoch
    return Moved(broker.now_ms(), topic, index, here, here, epoch, of=(kind, name))


def _coordinator_partition(broker: Broker, kind: str, name: str) -> tuple[str, int]:
    """The partition whose leader is the coordinator.  Raises CannotMove."""
    topic = GROUP_METADATA_TOPIC if kind == GROUP else TRANSACTION_STATE_TOPIC
    if topic not in broker.image.topics:
        raise CannotMove(f"there is no {topic} yet: no client has looked for a coordinator")
    if kind == GROUP:
        return topic, broker.coordinators.groups.partition_for(name)
    return topic, broker.coordinators.transactions.partition_for(name)


def _partition(image: ClusterImage, topic: str, index: int) -> PartitionImage:
    """Return a partition of the metadata image.  Raises CannotMove if it does not exist."""
    topic_image = image.topics.get(topic)
    if topic_image is None or index >= len(topic_image.partitions):
        raise CannotMove(f"there is no {topic}-{index}")
    return topic_image.partitions[index]


def _target(partition: PartitionImage, to: int | None, name: str, broker: Broker) -> int:
    """Id of the new leader: an in-sync replica other than the leader.  Raises CannotMove."""
    if broker.membership.replication is None:
        raise CannotMove(
            "this broker is not in a cluster: start one with kwire serve --brokers 3 --control PORT"
        )
    candidates = [
        replica
        for replica in partition.replicas
        if replica in partition.isr and replica != partition.leader
    ]
    if to is None and candidates:
        return candidates[0]
    if to in candidates:
        return to
    if to == partition.leader:
        raise CannotMove(f"broker {to} leads {name} already")
    others = ", ".join(map(str, candidates)) or "none"
    if to is None:
        raise CannotMove(f"no other broker can lead {name}: it has no other in-sync replica")
    raise CannotMove(f"broker {to} cannot lead {name}: the other in-sync replicas are {others}")


async def _reorder(broker: Broker, topic: str, index: int, order: tuple[int, ...]) -> None:
    """Changes the order of a partition's replicas through the controller: the first one becomes the
    preferred leader.  Raises CannotMove if the controller refuses."""
    partition = ReassignablePartition(partition_index=index, replicas=list(order))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=PATIENCE_MS, topics=[ReassignableTopic(name=topic, partitions=[partition])]
    )
    reply = await _call_controller(
        broker, request, lambda controller: controller.alter_reassignments(request)
    )
    _check(reply.error_code, reply.error_message)
    for each in reply.responses:
        for result in each.partitions:
            _check(result.error_code, result.error_message)


async def _elect(broker: Broker, topic: str, index: int) -> None:
    """Has the controller elect the preferred leader of a partition.  Raises CannotMove if the
    controller refuses; if the preferred replica leads already, nothing happens."""
    request = ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[TopicPartitions(topic=topic, partitions=[index])],
        timeout_ms=PATIENCE_MS,
    )
    reply = await _call_controller(
        broker, request, lambda controller: controller.elect_leaders(request)
    )
    _check(reply.error_code, None)
    for each in reply.replica_election_results:
        for result in each.partition_result:
            if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                _check(result.error_code, result.error_message)


async def _call_controller(broker: Broker, request: Any, call: Callable[..., Any]) -> Any:  # noqa: ANN401 - any request and its reply
    """The controller's response to a request: by `call` if this broker is the controller, else
    over the network.  Raises CannotMove.
    """
    try:
        if broker.membership.is_controller:
            return await ask_for_client(broker.membership, call, log, "no leader is moved")
        assert broker.node.peers is not None
        controller_id = broker.image.controller_id
        return await broker.node.peers.peer(controller_id, Role.TO_CONTROLLER).call(request)
    except Refusal as refusal:
        raise CannotMove(f"{refusal.error.name}: {refusal.message}") from None
    except PeerError as problem:
        raise CannotMove(f"the controller does not answer: {problem}") from None


def _check(code: int, message: str | None) -> None:
    if code:
        raise CannotMove(f"{ErrorCode(code).name}: {message or 'the controller sent no message'}")
