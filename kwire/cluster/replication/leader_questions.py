"""What a follower asks its leader besides Fetch: where epochs ended, where logs begin and end."""

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


class Concerned(Protocol):
    """A partition that is asked about."""

    key: Key
    leader_epoch: int

    @property
    def latest_epoch(self) -> int: ...


Answers = dict["Key", tuple[ErrorCode, int, int]]
Ask = Callable[["Peer", int, Sequence[Concerned]], Awaitable[Answers]]


async def ask_epochs(peer: Peer, node_id: int, concerned: Sequence[Concerned]) -> Answers:
    """Of each the leader's (epoch, end offset) for the last epoch here.  Raises PeerError."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for each in concerned:
        name, _, index = each.key
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=index,
                current_leader_epoch=each.leader_epoch,
                leader_epoch=each.latest_epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(replica_id=node_id, topics=list(topics.values()))
    response: OffsetForLeaderEpochResponse = await peer.call(request)
    told = {
        (topic.topic, answer.partition): answer
        for topic in response.topics
        for answer in topic.partitions
    }
    return {
        each.key: (ErrorCode(answer.error_code), answer.leader_epoch, answer.end_offset)
        for each in concerned
        if (answer := told.get((each.key[0], each.key[2]))) is not None
    }


async def ask_ends(peer: Peer, node_id: int, concerned: Sequence[Concerned]) -> Answers:
    """Of each where the leader's log begins and ends.  Raises PeerError."""
    starts = await _offsets(peer, node_id, concerned, EARLIEST)
    ends = await _offsets(peer, node_id, concerned, LATEST)
    return {
        key: (error or ends[key][0], start, ends[key][1])
        for key, (error, start) in starts.items()
        if key in ends
    }


async def _offsets(
    peer: Peer, node_id: int, concerned: Sequence[Concerned], timestamp: int
) -> dict[Key, tuple[ErrorCode, int]]:
    topics: dict[str, ListOffsetsTopic] = {}
    for each in concerned:
        name, _, index = each.key
        topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(
            ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=each.leader_epoch,
                timestamp=timestamp,
            )
        )
    request = ListOffsetsRequest(replica_id=node_id, topics=list(topics.values()))
    response: ListOffsetsResponse = await peer.call(request)
    told = {
        (topic.name, answer.partition_index): answer
        for topic in response.topics
        for answer in topic.partitions
    }
    return {
        each.key: (ErrorCode(answer.error_code), answer.offset)
        for each in concerned
        if (answer := told.get((each.key[0], each.key[2]))) is not None
    }
