"""Requests of a follower to its leader besides Fetch: OffsetForLeaderEpoch and ListOffsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.codecs.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from kwire.cluster.peers.peer import Peer
    from kwire.cluster.replication.fetch_session import Key

EARLIEST, LATEST = -2, -1


class QueriedPartition(Protocol):
    """A partition that the follower asks about."""

    key: Key
    leader_epoch: int

    @property
    def latest_epoch(self) -> int: ...


Answers = dict["Key", tuple[ErrorCode, int, int]]
"""The error and two numbers of each partition; a partition that the leader left out is missing."""
Query = Callable[["Peer", int, Sequence[QueriedPartition]], Awaitable[Answers]]


async def ask_epochs(peer: Peer, node_id: int, partitions: Sequence[QueriedPartition]) -> Answers:
    """Return the leader's (epoch, end offset) for the latest epoch of each partition.

    Raises PeerError.
    """
    topics: dict[str, OffsetForLeaderTopic] = {}
    for partition in partitions:
        name, _, index = partition.key
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=index,
                current_leader_epoch=partition.leader_epoch,
                leader_epoch=partition.latest_epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(replica_id=node_id, topics=list(topics.values()))
    response: OffsetForLeaderEpochResponse = await peer.call(request)
    answers = {
        (topic.topic, answer.partition): answer
        for topic in response.topics
        for answer in topic.partitions
    }
    return {
        partition.key: (ErrorCode(answer.error_code), answer.leader_epoch, answer.end_offset)
        for partition in partitions
        if (answer := answers.get((partition.key[0], partition.key[2]))) is not None
    }


async def ask_ends(peer: Peer, node_id: int, partitions: Sequence[QueriedPartition]) -> Answers:
    """Return the leader's (log start offset, log end offset) of each partition.

    Raises PeerError.
    """
    starts = await _offsets(peer, node_id, partitions, EARLIEST)
    ends = await _offsets(peer, node_id, partitions, LATEST)
    return {
        key: (error or ends[key][0], start, ends[key][1])
        for key, (error, start) in starts.items()
        if key in ends
    }


async def _offsets(
    peer: Peer, node_id: int, partitions: Sequence[QueriedPartition], timestamp: int
) -> dict[Key, tuple[ErrorCode, int]]:
    """Asks the leader by ListOffsets for the offset of `timestamp` in each partition.

    Returns error and offset by partition; those that the response does not have are left out.
    Raises PeerError.
    """
    topics: dict[str, ListOffsetsTopic] = {}
    for partition in partitions:
        name, _, index = partition.key
        topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(
            ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=partition.leader_epoch,
                timestamp=timestamp,
            )
        )
    request = ListOffsetsRequest(replica_id=node_id, topics=list(topics.values()))
    response: ListOffsetsResponse = await peer.call(request)
    answers = {
        (topic.name, answer.partition_index): answer
        for topic in response.topics
        for answer in topic.partitions
    }
    return {
        partition.key: (ErrorCode(answer.error_code), answer.offset)
        for partition in partitions
        if (answer := answers.get((partition.key[0], partition.key[2]))) is not None
    }
