"""What a follower asks its leader besides Fetch, and what it reads from the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from kwire.cluster.peers.peer import Peer
from kwire.cluster.replication.fetch_session import Key
from kwire.cluster.replication.leader_questions import ask_ends, ask_epochs
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.codecs.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.codecs.primitives import Message

NODE_ID = 7
FENCED, UNKNOWN = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
NONE = ErrorCode.NONE


@dataclass
class Followed:
    """A partition that the follower asks about."""

    key: Key
    leader_epoch: int
    latest_epoch: int


A0 = Followed(("a", b"a" * 16, 0), 5, 4)
A1 = Followed(("a", b"a" * 16, 1), 6, 2)
B0 = Followed(("b", b"b" * 16, 0), 8, 7)


class AnsweringPeer:
    """A leader that gives these answers, one after the other."""

    def __init__(self, *answers: Message) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []

    async def call(self, request: Message) -> Any:  # noqa: ANN401 - any response
        self.requests.append(request)
        return self.answers.pop(0)


def peer(leader: AnsweringPeer) -> Peer:
    return cast(Peer, leader)


def offsets(**topics: list[tuple[int, ErrorCode, int]]) -> ListOffsetsResponse:
    """A ListOffsets response, by topic: (partition, error, offset)."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name,
                [
                    ListOffsetsPartitionResponse(index, error, offset=offset)
                    for index, error, offset in partitions
                ],
            )
            for name, partitions in topics.items()
        ]
    )


def epoch_ends(**topics: list[tuple[ErrorCode, int, int, int]]) -> OffsetForLeaderEpochResponse:
    """An OffsetForLeaderEpoch response, by topic: (error, partition, epoch, end offset)."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(name, [EpochEndOffset(*each) for each in partitions])
            for name, partitions in topics.items()
        ]
    )


# -- where the leader's epochs end


async def test_epoch_query_names_the_follower_and_two_epochs_of_each_partition() -> None:
    leader = AnsweringPeer(epoch_ends())
    assert await ask_epochs(peer(leader), NODE_ID, [A0, B0, A1]) == {}
    [request] = leader.requests
    assert isinstance(request, OffsetForLeaderEpochRequest)
    assert request.replica_id == NODE_ID
    asked = {
        topic.topic: [
            (each.partition, each.current_leader_epoch, each.leader_epoch)
            for each in topic.partitions
        ]
        for topic in request.topics
    }
    assert asked == {"a": [(0, 5, 4), (1, 6, 2)], "b": [(0, 8, 7)]}
    assert len(request.topics) == 2


async def test_epoch_answers_belong_to_their_topic_and_partition() -> None:
    """A partition that the leader leaves out has no answer; what was not asked is ignored."""
    leader = AnsweringPeer(
        epoch_ends(c=[(NONE, 0, 1, 1)], b=[(NONE, 0, 7, 70)], a=[(FENCED, 1, -1, -1)])
    )
    answers = await ask_epochs(peer(leader), NODE_ID, [A0, A1, B0])
    assert answers == {B0.key: (NONE, 7, 70), A1.key: (FENCED, -1, -1)}


# -- where the leader's log begins and ends


async def test_log_ends_are_asked_as_a_replica_of_the_current_epoch() -> None:
    """As a consumer, -1, the follower would get the high watermark in place of the log end."""
    leader = AnsweringPeer(offsets(), offsets())
    assert await ask_ends(peer(leader), NODE_ID, [A0, B0, A1]) == {}
    assert all(isinstance(each, ListOffsetsRequest) for each in leader.requests)
    assert [each.replica_id for each in leader.requests] == [NODE_ID, NODE_ID]
    asked = [
        [
            (topic.name, each.partition_index, each.current_leader_epoch, each.timestamp)
            for topic in request.topics
            for each in topic.partitions
        ]
        for request in leader.requests
    ]
    assert asked == [
        [("a", 0, 5, timestamp), ("a", 1, 6, timestamp), ("b", 0, 8, timestamp)]
        for timestamp in (-2, -1)
    ]
    assert [len(each.topics) for each in leader.requests] == [2, 2]


async def test_log_ends_are_the_earliest_and_the_latest_offset() -> None:
    leader = AnsweringPeer(
        offsets(b=[(0, NONE, 3)], a=[(1, NONE, 2), (0, NONE, 1)]),
        offsets(a=[(0, NONE, 10), (1, NONE, 20)], b=[(0, NONE, 30)]),
    )
    answers = await ask_ends(peer(leader), NODE_ID, [A0, A1, B0])
    assert answers == {A0.key: (NONE, 1, 10), A1.key: (NONE, 2, 20), B0.key: (NONE, 3, 30)}


async def test_error_of_either_question_is_the_error_of_the_partition() -> None:
    leader = AnsweringPeer(
        offsets(a=[(0, FENCED, -1), (1, NONE, 2)], b=[(0, FENCED, -1)]),
        offsets(a=[(0, NONE, 10), (1, UNKNOWN, -1)], b=[(0, UNKNOWN, -1)]),
    )
    answers = await ask_ends(peer(leader), NODE_ID, [A0, A1, B0])
    assert {key: error for key, (error, *_) in answers.items()} == {
        A0.key: FENCED,
        A1.key: UNKNOWN,
        B0.key: FENCED,
    }


async def test_partition_missing_in_one_of_two_answers_has_no_log_ends() -> None:
    leader = AnsweringPeer(
        offsets(a=[(0, NONE, 1), (1, NONE, 2)]), offsets(a=[(1, NONE, 20)], b=[(0, NONE, 3)])
    )
    assert await ask_ends(peer(leader), NODE_ID, [A0, A1, B0]) == {A1.key: (NONE, 2, 20)}
