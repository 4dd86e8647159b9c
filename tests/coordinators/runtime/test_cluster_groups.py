"""Groups in a cluster whose coordinator moves between brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from kwire.codecs.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kwire.groups.java import partition_for
from tests.coordinators.runtime.cluster import OFFSETS, Member, State, cluster
from tests.inside import until

pytestmark = pytest.mark.slow

MOVED = ErrorCode.NOT_COORDINATOR


async def join(coordinator: Member, member_id: str = "") -> JoinGroupResponse:
    request = JoinGroupRequest(
        "g", 30_000, 60_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    return await coordinator.ask(request, 3, JoinGroupResponse)


async def stable(coordinator: Member) -> str:
    """A group of one member, whose id this is."""
    joined = await join(coordinator)
    assert joined.error_code == ErrorCode.NONE
    member_id = joined.member_id
    shares = [SyncGroupRequestAssignment(member_id, b"share")]
    request = SyncGroupRequest("g", 1, member_id, None, assignments=shares)
    synced = await coordinator.ask(request, 3, SyncGroupResponse)
    assert synced.error_code == ErrorCode.NONE
    return member_id


async def heartbeat(coordinator: Member, member_id: str) -> ErrorCode:
    answer = await coordinator.ask(HeartbeatRequest("g", 1, member_id), 3, HeartbeatResponse)
    return ErrorCode(answer.error_code)


async def commit(coordinator: Member, member_id: str, offset: int) -> ErrorCode:
    partition = OffsetCommitRequestPartition(0, offset, committed_metadata="")
    topics = [OffsetCommitRequestTopic("t", b"", [partition])]
    request = OffsetCommitRequest("g", 1, member_id, topics=topics)
    answer = await coordinator.ask(request, 7, OffsetCommitResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def committed(coordinator: Member) -> list[int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    answer = await coordinator.ask(request, 8, OffsetFetchResponse)
    [group] = answer.groups
    return [each.committed_offset for topic in group.topics for each in topic.partitions]


async def found(asked: Member) -> tuple[ErrorCode, int]:
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    answer = await asked.ask(request, 4, FindCoordinatorResponse)
    [told] = answer.coordinators
    return ErrorCode(told.error_code), told.node_id


async def test_group_continues_on_its_new_coordinator(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as made:
        made.create("t", (1,))
        made.create(OFFSETS, (1, 2, 3))
        first = await made.until_served(OFFSETS)
        member_id = await stable(first)
        assert await commit(first, member_id, 5) is ErrorCode.NONE
        assert [await found(each) for each in made.members.values()] == [(ErrorCode.NONE, 1)] * 3
        await made.end(1)
        second = await made.until_served(OFFSETS)
        assert second is made.members[2]
        assert [await found(each) for each in made.members.values()] == [(ErrorCode.NONE, 2)] * 2
        assert await heartbeat(second, member_id) is ErrorCode.NONE
        assert await committed(second) == [5]
        assert await heartbeat(made.members[3], member_id) is MOVED
        assert await commit(second, member_id, 6) is ErrorCode.NONE
        made.elect(OFFSETS, 0, 3)
        third = await made.until_served(OFFSETS)
        assert await heartbeat(second, member_id) is MOVED
        assert await commit(second, member_id, 7) is MOVED
        assert await heartbeat(third, member_id) is ErrorCode.NONE
        assert await committed(third) == [6]
        made.elect(OFFSETS, 0, -1)
        assert await heartbeat(third, member_id) is MOVED
        assert await found(third) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


async def test_broker_answers_not_coordinator_until_metadata_has_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the configured number of partitions, which is that of another broker at times: a
    group whose place that gave was served where nobody else would look for it."""
    settings = {"offsets.topic.num.partitions": "1"}
    async with cluster(tmp_path, 1, settings=settings) as made:
        made.create("t", (1,))
        member, broker = made.members[1], made.members[1].broker
        assert partition_for("g", 3) != 0
        made.topics[OFFSETS] = [State(1, (1,), (1,)) for _ in range(3)]
        made.lead_and_follow(1)
        await made.until_served(OFFSETS)
        assert broker.coordinators.groups.partition_for("g") == -1
        assert (await join(member)).error_code == MOVED
        made_topics: list[str] = []

        async def create_internal_topic(name: str) -> None:
            made_topics.append(name)

        monkeypatch.setattr(broker.membership, "create_internal_topic", create_internal_topic)
        added = await member.ask(AddOffsetsToTxnRequest("x", 1, 0, "g"), 3, AddOffsetsToTxnResponse)
        assert added.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert made_topics == [OFFSETS]
        topics = [
            TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 5)])
        ]
        request = TxnOffsetCommitRequest("x", "g", 7, 0, topics=topics)
        committed = await member.ask(request, 3, TxnOffsetCommitResponse)
        assert committed.topics[0].partitions[0].error_code == MOVED
        made.tell()
        assert broker.coordinators.groups.partition_for("g") == partition_for("g", 3)
        await stable(member)
        made.delete(OFFSETS)
        assert broker.coordinators.groups.partition_for("g") == -1


async def test_list_groups_lists_only_groups_of_this_broker(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as made:
        made.create(OFFSETS, (1, 2))
        first, second = made.members[1], made.members[2]
        await made.until_served(OFFSETS)
        await stable(first)

        async def listed(member: Member) -> list[str]:
            answer = await member.ask(ListGroupsRequest(), 4, ListGroupsResponse)
            assert answer.error_code == ErrorCode.NONE
            return [each.group_id for each in answer.groups]

        async def described(member: Member) -> tuple[int, str]:
            request = DescribeGroupsRequest(["g"])
            [told] = (await member.ask(request, 5, DescribeGroupsResponse)).groups
            return told.error_code, told.group_state

        assert [await listed(first), await listed(second)] == [["g"], []]
        assert [await described(first), await described(second)] == [(0, "Stable"), (MOVED, "")]
        made.elect(OFFSETS, 0, 2)
        await made.until_served(OFFSETS)
        assert [await listed(first), await listed(second)] == [[], ["g"]]
        assert [await described(first), await described(second)] == [(MOVED, ""), (0, "Stable")]
        deleted = await first.ask(DeleteGroupsRequest(["g"]), 3, DeleteGroupsResponse)
        assert [(e.error_code, e.error_message) for e in deleted.results] == [(MOVED, None)]


async def test_parked_join_gets_not_coordinator_when_the_coordinator_moves(tmp_path: Path) -> None:
    """Joins and syncs that wait for other members, and a commit that waits for a follower."""
    async with cluster(tmp_path, 1, 2) as made:
        made.create("t", (1,))
        made.create(OFFSETS, (1, 2))
        first = await made.until_served(OFFSETS)
        member_id = await stable(first)
        told: list[Any] = []

        async def wait_for(answer: Any) -> None:  # noqa: ANN401 - a coroutine of any request
            told.append(await answer)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for, join(first))
            machine = first.broker.coordinators.groups.runtime.shards[0].machine
            await until(lambda: machine.groups["g"].state_name == "PreparingRebalance")
            made.silence(2, OFFSETS)
            end = first.partition(OFFSETS).log_end_offset
            nursery.start_soon(wait_for, commit(first, member_id, 9))
            await until(lambda: first.partition(OFFSETS).log_end_offset > end)
            assert not told
            made.elect(OFFSETS, 0, 2)
        errors = [each if isinstance(each, ErrorCode) else each.error_code for each in told]
        assert errors == [MOVED, MOVED]
        second = await made.until_served(OFFSETS)
        assert await heartbeat(second, member_id) is ErrorCode.NONE
        assert await committed(second) == [], "what was not acknowledged may be lost"


async def test_parked_join_stays_parked_when_a_follower_dies(tmp_path: Path) -> None:
    """The leader stays, in another epoch."""
    async with cluster(tmp_path, 1, 2, 3) as made:
        made.create(OFFSETS, (1, 2, 3))
        first = await made.until_served(OFFSETS)
        member_id = await stable(first)
        joined: list[JoinGroupResponse] = []

        async def join_too() -> None:
            joined.append(await join(first))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join_too)
            machine = first.broker.coordinators.groups.runtime.shards[0].machine
            await until(lambda: machine.groups["g"].state_name == "PreparingRebalance")
            await made.end(3)
            assert first.partition(OFFSETS).leader_epoch == 1
            assert not joined
            rejoined = await join(first, member_id)
        assert rejoined.error_code == joined[0].error_code == ErrorCode.NONE
        assert rejoined.generation_id == joined[0].generation_id == 2
