"""Share groups in a cluster: the leader and the share coordinator are different brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.codecs.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeResponse
from kwire.codecs.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.share_group import ACCEPT, acknowledge, fetch, heartbeat
from kwire.conformance.wire.cases.share_offsets import alter, describe
from kwire.coordinators.share_partitions import states
from tests.coordinators.runtime.cluster import OFFSETS, Cluster, Member, cluster
from tests.inside import RawClient, port_of, until

pytestmark = pytest.mark.slow

STATES = "__share_group_state"
TOPIC = CaseTopic("t", b"t".ljust(16, b"-"), 1)
SETTINGS = {"group.share.assignment.interval.ms": "0"}
NOW_MS = 1_700_000_000_000


@asynccontextmanager
async def three_brokers(directory: Path) -> AsyncIterator[Cluster]:
    """1 coordinates groups, 2 keeps the states of share partitions, 3 leads ten records."""
    async with cluster(directory, 1, 2, 3, settings=SETTINGS) as made:
        made.create(OFFSETS, (1, 2, 3))
        made.create(STATES, (2, 3, 1))
        made.create(TOPIC.name, (3, 1, 2))
        await made.until_served(OFFSETS)
        await served(made, 2)
        records = [Record(0, NOW_MS, None, b"x")] * 10
        leader = made.members[3].partition(TOPIC.name)
        leader.append(build(records), now_ms=NOW_MS, required_acks=1)
        await until(lambda: leader.high_watermark == len(records))
        yield made


async def served(made: Cluster, leader: int) -> None:
    """Wait until a broker keeps the states."""
    shards = made.members[leader].broker.coordinators.share.runtime.shards
    await until(lambda: 0 in shards and shards[0].serves)


@asynccontextmanager
async def connected(made: Cluster, number: int) -> AsyncIterator[RawClient]:
    """A connection that outlives other brokers."""
    port = port_of(made.members[number].broker)
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        yield RawClient(stream)


async def joined(coordinator: Member) -> int:
    """A member that is given the topic, and its epoch."""
    epoch = 0
    with trio.fail_after(60):
        while True:
            request = heartbeat("g", "m", epoch, [TOPIC.name] if epoch == 0 else None)
            told = await coordinator.ask(request, 1, ShareGroupHeartbeatResponse)
            assert told.error_code == ErrorCode.NONE, told.error_message
            epoch = told.member_epoch
            if told.assignment is not None and told.assignment.topic_partitions:
                return epoch
            await trio.sleep(0.05)


async def left(coordinator: Member) -> None:
    await coordinator.ask(heartbeat("g", "m", -1), 1, ShareGroupHeartbeatResponse)


async def acquired(client: RawClient, epoch: int, **fields: int) -> list[tuple[int, int, int]]:
    """What a fetch of the topic brings: first and last offset, the how manieth delivery it is."""
    topic = TOPIC if epoch == 0 else None
    told = await client.ask(fetch("g", "m", epoch, topic, **fields), 2, ShareFetchResponse)
    assert told.error_code == ErrorCode.NONE
    partitions = [each for topic in told.responses for each in topic.partitions]
    assert [each.error_code for each in partitions] == [ErrorCode.NONE] * len(partitions)
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for each in partitions
        for run in each.acquired_records
    ]


async def accept(client: RawClient, epoch: int, first: int, last: int) -> ErrorCode:
    request = acknowledge("g", "m", epoch, TOPIC, (first, last, [ACCEPT]))
    told = await client.ask(request, 2, ShareAcknowledgeResponse)
    assert told.error_code == ErrorCode.NONE
    return ErrorCode(told.responses[0].partitions[0].error_code)


async def described(coordinator: Member) -> tuple[int, int, int]:
    """Start offset, leader epoch and lag."""
    told = await coordinator.ask(describe("g"), 1, DescribeShareGroupOffsetsResponse)
    [partition] = told.groups[0].topics[0].partitions
    assert partition.error_code == ErrorCode.NONE
    return partition.start_offset, partition.leader_epoch, partition.lag


async def begun(made: Cluster, offset: int = 0) -> None:
    """The group reads from this offset on."""
    request = alter("g", (TOPIC.name, [(0, offset)]))
    told = await made.members[1].ask(request, 0, AlterShareGroupOffsetsResponse)
    assert told.error_code == ErrorCode.NONE
    assert told.responses[0].partitions[0].error_code == ErrorCode.NONE


async def test_share_group_reads_partitions_of_three_brokers(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as made, connected(made, 3) as client:
        await begun(made, 2)
        assert await described(made.members[1]) == (2, 0, 8)
        await joined(made.members[1])
        assert await acquired(client, 0) == [(2, 9, 1)]
        assert await accept(client, 1, 2, 3) is ErrorCode.NONE
        assert await accept(client, 2, 8, 9) is ErrorCode.NONE
        assert await described(made.members[1]) == (4, 0, 4)


async def test_new_leader_reads_the_stored_state(tmp_path: Path) -> None:
    async with (
        three_brokers(tmp_path) as made,
        connected(made, 3) as before,
        connected(made, 1) as after,
    ):
        await begun(made)
        await joined(made.members[1])
        assert await acquired(before, 0) == [(0, 9, 1)]
        assert await accept(before, 1, 3, 5) is ErrorCode.NONE
        made.elect(TOPIC.name, 0, 1)
        assert await accept(before, 2, 0, 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await until(lambda: made.members[1].partition(TOPIC.name).high_watermark == 10)
        assert await acquired(after, 0) == [(0, 2, 1), (6, 9, 1)], "deliveries are not written down"
        assert await accept(after, 1, 0, 9) is ErrorCode.INVALID_RECORD_STATE, "3 to 5 are done"
        assert await accept(after, 2, 0, 2) is ErrorCode.NONE
        assert await described(made.members[1]) == (0, 1, 4)


async def test_state_survives_a_move_of_its_coordinator(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as made, connected(made, 3) as client:
        await begun(made)
        await joined(made.members[1])
        assert await acquired(client, 0) == [(0, 9, 1)]
        assert await accept(client, 1, 0, 1) is ErrorCode.NONE
        made.elect(STATES, 0, 3)
        await served(made, 3)
        assert await accept(client, 2, 2, 3) is ErrorCode.NONE
        made.elect(STATES, 0, -1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_comes_back, made)
            assert await accept(client, 3, 4, 5) is ErrorCode.NONE, "it was waited for"
        assert await described(made.members[1]) == (4, 0, 4)
        await made.end(2)  # which gives what it followed another epoch
        assert await accept(client, 4, 6, 9) is ErrorCode.NONE
        assert await described(made.members[1]) == (6, 0, 0)


async def _comes_back(made: Cluster) -> None:
    await trio.sleep(0.2)
    made.elect(STATES, 0, 1)


async def test_partitions_wait_for_an_unavailable_coordinator_concurrently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not one after the other; a fetch waits for it no longer than for records."""
    monkeypatch.setattr(states, "RETRY_PAUSES_S", (0.5,))
    count = 8
    async with three_brokers(tmp_path) as made, connected(made, 3) as client:
        made.create("many", *[(3, 1, 2)] * count)
        topic_id = b"many".ljust(16, b"-")
        made.elect(STATES, 0, -1)
        partitions = [FetchPartition(index) for index in range(count)]
        request = ShareFetchRequest("g", "m", 0, 0, 0, 1 << 20, 10, 10)
        request.topics = [FetchTopic(topic_id, partitions)]
        told = await client.ask(request, 2, ShareFetchResponse)
        assert told.responses == [], "nothing is known yet"
        errors: dict[int, int] = {}
        for epoch in (1, 2):  # in each of them two pauses would have room
            request = ShareFetchRequest("g", "m", epoch, 1_000, 1, 1 << 20, 10, 10)
            told = await client.ask(request, 2, ShareFetchResponse)
            for topic in told.responses:
                errors |= {each.partition_index: each.error_code for each in topic.partitions}
            if len(errors) == count:
                break
        assert errors == dict.fromkeys(range(count), ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_unavailable_coordinator_does_not_block_other_partitions(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as made, connected(made, 3) as client:
        await begun(made)
        await joined(made.members[1])
        assert await acquired(client, 0, max_records=4, share_acquire_mode=1) == [(0, 3, 1)]
        made.create("later", (3, 1, 2))
        made.elect(STATES, 0, -1)
        request = ShareFetchRequest("g", "m", 1, 60_000, 1, 1 << 20, 4, 4)
        request.topics = [FetchTopic(b"later".ljust(16, b"-"), [FetchPartition(0)])]
        with trio.fail_after(30):
            told = await client.ask(request, 2, ShareFetchResponse)
        assert [topic.topic_id for topic in told.responses] == [TOPIC.id]
        assert told.responses[0].partitions[0].acquired_records


async def test_delete_group_deletes_its_share_state(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as made, connected(made, 3) as client:
        await begun(made)
        await joined(made.members[1])
        assert await acquired(client, 0) == [(0, 9, 1)]
        await left(made.members[1])
        request = DeleteGroupsRequest(["g"])
        told = await made.members[1].ask(request, 2, DeleteGroupsResponse)
        assert [each.error_code for each in told.results] == [ErrorCode.NONE]
        error = await accept(client, 1, 0, 1)
        assert error is ErrorCode.UNKNOWN_SERVER_ERROR, "the share coordinator knows it no longer"
        answer = await made.members[1].ask(describe("g", (TOPIC.name, [0])), 1,
                                           DescribeShareGroupOffsetsResponse)  # fmt: skip
        assert answer.groups[0].topics[0].partitions[0].start_offset == -1
