"""Where partitions end, wherever they are led: what is left for a share group goes up to there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kwire.client.errors import as_error_code
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cluster.peers.peers import Peers

Place = tuple[str, int]
"""Topic and partition."""

LATEST, CONSUMER, READ_UNCOMMITTED = -1, -1, 0
"""Of a ListOffsets request."""


class Latest(NamedTuple):
    """The high watermark, or why it is not known."""

    error: ErrorCode
    offset: int = -1


async def latest_offsets(broker: Broker, places: Iterable[Place]) -> dict[Place, Latest]:
    found: dict[Place, Latest] = {}
    elsewhere: dict[int, list[Place]] = {}
    for name, index in places:
        leader = broker.image.topics[name].partitions[index].leader
        if broker.node.peers is None or leader == broker.node_id:
            found[name, index] = _here(broker, name, index)
        elif leader < 0:
            found[name, index] = Latest(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            elsewhere.setdefault(leader, []).append((name, index))
    for leader, asked in elsewhere.items():
        assert broker.node.peers is not None
        found |= await _there(broker.node.peers, leader, asked)
    return found


def _here(broker: Broker, name: str, index: int) -> Latest:
    try:
        return Latest(ErrorCode.NONE, broker.hosted.led(name, index).high_watermark)
    except LogError as problem:
        return Latest(problem.error)


async def _there(peers: Peers, leader: int, places: list[Place]) -> dict[Place, Latest]:
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
        CONSUMER, READ_UNCOMMITTED, [ListOffsetsTopic(*each) for each in topics.items()]
    )
    try:
        response = await peers.peer(leader, Role.SHARE_STATE).call(request)
    except PeerError:
        return {place: Latest(ErrorCode.NETWORK_EXCEPTION) for place in places}
    return {
        (topic.name, told.partition_index): Latest(as_error_code(told.error_code), told.offset)
        for topic in response.topics
        for told in topic.partitions
    }
