"""The high watermarks of partitions, from this broker or from their leaders; for the lag of share
groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.errors import ErrorCode, as_error_code
from kwire.log import LogError

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cluster.peers.peers import Peers

Place = tuple[str, int]
"""Topic name and partition index."""

LATEST, CONSUMER, READ_UNCOMMITTED = -1, -1, 0
"""Values of fields in a ListOffsets request."""


class Latest(NamedTuple):
    """A high watermark, or the error if it is unknown."""

    error: ErrorCode
    offset: int = -1


async def latest_offsets(broker: Broker, places: Iterable[Place]) -> dict[Place, Latest]:
    """Return the high watermark of each partition, or the error if it is unknown.

    Leaders on other brokers get one ListOffsets request each, one after the other.
    """
    latest: dict[Place, Latest] = {}
    by_other_leader: dict[int, list[Place]] = {}
    for name, index in places:
        leader = broker.image.topics[name].partitions[index].leader
        if broker.node.peers is None or leader == broker.node_id:
            latest[name, index] = _from_this_broker(broker, name, index)
        elif leader < 0:
            latest[name, index] = Latest(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            by_other_leader.setdefault(leader, []).append((name, index))
    for leader, led_places in by_other_leader.items():
        assert broker.node.peers is not None
        latest |= await _from_leader(broker.node.peers, leader, led_places)
    return latest


def _from_this_broker(broker: Broker, name: str, index: int) -> Latest:
    """Return the high watermark of a partition that this broker leads, or the error."""
    try:
        return Latest(ErrorCode.NONE, broker.hosted.led(name, index).high_watermark)
    except LogError as problem:
        return Latest(problem.error)


async def _from_leader(peers: Peers, leader: int, places: list[Place]) -> dict[Place, Latest]:
    """Ask another broker for the high watermarks of partitions that it leads.

    If it cannot be reached, each partition has NETWORK_EXCEPTION.
    """
    from kwire.cluster.peers.error import PeerError
    from kwire.cluster.peers.peers import Role
    from kwire.codecs.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name, index in places:
        topics.setdefault(name, []).append(ListOffsetsPartition(index, timestamp=LATEST))
    request = ListOffsetsRequest(
        CONSUMER, READ_UNCOMMITTED, [ListOffsetsTopic(*topic) for topic in topics.items()]
    )
    try:
        response = await peers.peer(leader, Role.SHARE_STATE).call(request)
    except PeerError:
        return {place: Latest(ErrorCode.NETWORK_EXCEPTION) for place in places}
    return {
        (topic.name, answer.partition_index): Latest(
            as_error_code(answer.error_code), answer.offset
        )
        for topic in response.topics
        for answer in topic.partitions
    }
