"""Moving leaders and coordinators, now, as an administrator of the cluster would.

The broker that is to lead comes first among the replicas (AlterPartitionReassignments), and is
elected as the preferred one (ElectLeaders): so leader, epoch and what clients are told are those of
any election, and the cluster's own balancing leaves it where it is.  A coordinator is where the
leader of its partition is.  A broker that is alone cannot give it away: it lets go of it and loads
it anew.
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
    """It stays where it is; the message says why."""


async def move_leader(broker: Broker, topic: str, index: int, to: int | None) -> Moved:
    """Have another broker lead a partition, the next one in sync if it is not said which.

    Returns when this broker tells its clients so.  Raises CannotMove.
    """
    known = _known(broker.image, topic, index)
    target = _target(known, to, f"{topic}-{index}", broker)
    order = (target, *(each for each in known.replicas if each != target))
    await _reorder(broker, topic, index, order)
    await _elect(broker, topic, index)

    def is_led(image: ClusterImage) -> bool:
        return _known(image, topic, index).leader == target

    if not await broker.membership.until(is_led, PATIENCE_MS):
        raise CannotMove(f"broker {target} does not lead {topic}-{index} after {PATIENCE_MS} ms")
    epoch = _known(broker.image, topic, index).leader_epoch
    return Moved(broker.now_ms(), topic, index, known.leader, target, epoch)


async def move_coordinator(broker: Broker, kind: str, name: str, to: int | None) -> Moved:
    """Have another broker coordinate a group or a transactional id, in the same way.

    Raises CannotMove.
    """
    topic, index = _place_of(broker, kind, name)
    if broker.membership.replication is not None:
        moved = await move_leader(broker, topic, index, to)
        return moved._replace(of=(kind, name))
    if to not in (None, broker.node_id):
        raise CannotMove(f"there is no broker {to}: this one is alone")
    coordinator = broker.coordinators.groups if kind == GROUP else broker.coordinators.transactions
    partition = broker.hosted.led(topic, index)
    coordinator.resign(index)
    coordinator.lead(partition)
    here, epoch = broker.node_id, partition.leader_epoch
    return Moved(broker.now_ms(), topic, index, here, here, epoch, of=(kind, name))


def _place_of(broker: Broker, kind: str, name: str) -> tuple[str, int]:
    """Where the records of its coordinator are.  Raises CannotMove."""
    topic = GROUP_METADATA_TOPIC if kind == GROUP else TRANSACTION_STATE_TOPIC
    if topic not in broker.image.topics:
        raise CannotMove(f"there is no {topic} yet: nobody has asked for a coordinator")
    if kind == GROUP:
        return topic, broker.coordinators.groups.partition_for(name)
    return topic, broker.coordinators.transactions.partition_for(name)


def _known(image: ClusterImage, topic: str, index: int) -> PartitionImage:
    found = image.topics.get(topic)
    if found is None or index >= len(found.partitions):
        raise CannotMove(f"there is no {topic}-{index}")
    return found.partitions[index]


def _target(known: PartitionImage, to: int | None, name: str, broker: Broker) -> int:
    """Who is to lead: a replica in sync, and another one than now."""
    if broker.membership.replication is None:
        raise CannotMove("this broker is alone: kwire serve --brokers 3 --control PORT has others")
    possible = [each for each in known.replicas if each in known.isr and each != known.leader]
    if to is None and possible:
        return possible[0]
    if to in possible:
        return to
    if to == known.leader:
        raise CannotMove(f"broker {to} leads {name} already")
    others = ", ".join(map(str, possible)) or "none"
    raise CannotMove(f"broker {'?' if to is None else to} cannot lead {name}: in sync are {others}")


async def _reorder(broker: Broker, topic: str, index: int, order: tuple[int, ...]) -> None:
    asked = ReassignablePartition(partition_index=index, replicas=list(order))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=PATIENCE_MS, topics=[ReassignableTopic(name=topic, partitions=[asked])]
    )
    reply = await _ask(broker, request, lambda controller: controller.alter_reassignments(request))
    _check(reply.error_code, reply.error_message)
    for each in reply.responses:
        for result in each.partitions:
            _check(result.error_code, result.error_message)


async def _elect(broker: Broker, topic: str, index: int) -> None:
    request = ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[TopicPartitions(topic=topic, partitions=[index])],
        timeout_ms=PATIENCE_MS,
    )
    reply = await _ask(broker, request, lambda controller: controller.elect_leaders(request))
    _check(reply.error_code, None)
    for each in reply.replica_election_results:
        for result in each.partition_result:
            if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                _check(result.error_code, result.error_message)


async def _ask(broker: Broker, request: Any, question: Callable[..., Any]) -> Any:  # noqa: ANN401 - any request and its reply
    """The controller's reply, on whatever broker it is.  Raises CannotMove."""
    try:
        if broker.membership.is_controller:
            return await ask_for_client(broker.membership, question, log, "no leader is moved")
        assert broker.node.peers is not None
        controller_id = broker.image.controller_id
        return await broker.node.peers.peer(controller_id, Role.TO_CONTROLLER).call(request)
    except Refusal as refusal:
        raise CannotMove(f"{refusal.error.name}: {refusal.message}") from None
    except PeerError as problem:
        raise CannotMove(f"the controller does not answer: {problem}") from None


def _check(code: int, message: str | None) -> None:
    if code:
        raise CannotMove(f"{ErrorCode(code).name}: {message or 'the controller says no more'}")
