"""The coordinator runtime with group shards: load, failure, waiting for commits, timeouts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kwire.codecs.batches import Compression, Record, build, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.coordinators.runtime import groups, transactions
from kwire.coordinators.runtime.runtime import ShardState
from kwire.groups.java import partition_for, string_hash
from kwire.groups.limits import GroupLimits
from kwire.groups.offset_record import CommittedOffset, OffsetCommit, OffsetKey
from kwire.log import Origin
from kwire.settings import load
from kwire.storage.partitions.partition import Partition
from kwire.txn.limits import TransactionLimits
from tests.requests.handlers.node import NODE_ID, Node, as_received

AnyMessage = Any
"""A request or response of any kind."""

TOPIC = "__consumer_offsets"


@asynccontextmanager
async def running(directory: Path, **settings: str) -> AsyncIterator[Node]:
    node = Node(directory, {name.replace("_", "."): value for name, value in settings.items()})
    async with trio.open_nursery() as nursery:
        node.broker.coordinators.groups.start(nursery)
        node.broker.coordinators.groups.partitions = 1
        nursery.start_soon(node.broker.node.timers.run)
        yield node
        nursery.cancel_scope.cancel()
    node.close()


def commit(offset: int, partitions: int = 1, group_id: str = "G") -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(index, offset, committed_metadata="")
                    for index in range(partitions)
                ],
            )
        ],
    )


def committed(node: Node) -> list[int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="G", topics=None)])
    response = node.call(request, 8)
    return [p.committed_offset for topic in response.groups[0].topics for p in topic.partitions]


def lead(node: Node) -> Partition:
    """Have the node take up the offsets partition as after others have led it."""
    partition = node.partition(TOPIC)
    node.broker.coordinators.groups.resign(partition.index)
    node.broker.coordinators.groups.lead(partition)
    return partition


async def test_load_restores_groups_and_offsets(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr("kwire.coordinators.runtime.runtime.LOAD_SLICE_BYTES", 300)
    async with running(tmp_path) as node:
        node.create("t", 3)
        node.create(TOPIC, cleanup_policy="compact")
        for offset in range(5):
            node.call(commit(offset, partitions=3), 8)
        lead(node)
        assert node.call(HeartbeatRequest(group_id="G"), 4).error_code == ErrorCode.NONE
        busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert node.call(ListGroupsRequest(), 5).error_code == busy
        reply = node.call(commit(9, partitions=3), 8)
        assert {p.error_code for p in reply.topics[0].partitions} == {busy}
        assert (
            node.call(
                OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="G", topics=None)]), 8
            )
            .groups[0]
            .error_code
            == busy
        )
        await trio.testing.wait_all_tasks_blocked()
        assert "Loaded 15 records of the coordinator of __consumer_offsets-0." in caplog.text
        assert node.broker.coordinators.groups.runtime.loads.count == 1
        assert committed(node) == [4, 4, 4]
        assert [g.group_id for g in node.call(ListGroupsRequest(), 5).groups] == ["G"]


async def test_load_lets_other_tasks_run_between_slices(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.coordinators.runtime.runtime.LOAD_SLICE_BYTES", 1000)
    async with running(tmp_path) as node:
        node.create("t")
        node.create(TOPIC, cleanup_policy="compact")
        while node.partition(TOPIC).log.segments.size_bytes < 4_000:
            number = node.partition(TOPIC).log_end_offset
            node.call(commit(number, group_id=f"G{number}"), 8)
        lead(node)
        turns = 0
        while node.call(ListGroupsRequest(), 5).error_code:
            turns += 1
            await trio.lowlevel.checkpoint()
        assert turns >= 4
        groups = node.call(ListGroupsRequest(), 5).groups
        assert [g.group_id for g in groups] == [f"G{each}" for each in range(number + 1)]


async def test_load_stops_when_the_broker_resigns(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.coordinators.runtime.runtime.LOAD_SLICE_BYTES", 1)
    async with running(tmp_path) as node:
        node.create("t")
        node.create(TOPIC, cleanup_policy="compact")
        for offset in range(20):
            node.call(commit(offset), 8)
        lead(node)
        shard = node.broker.coordinators.groups.runtime.shards[0]
        await trio.lowlevel.checkpoint()
        node.broker.coordinators.groups.resign(0)
        await trio.testing.wait_all_tasks_blocked()
        read = shard.machine.offsets.get("G", "t", 0)
        assert read is None or read.offset < 19


async def test_load_skips_records_of_unknown_types(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        node.create("t")
        node.create(TOPIC, cleanup_policy="compact")
        node.call(commit(7), 8)
        append(node, b"\0\x7e" + b"\0\x01G", b"\0\0" + bytes(4))
        append(node, b"\x7f\xff", None)
        later = OffsetCommit(OffsetKey("G", "t", 0), CommittedOffset(8))
        append(node, b"\x7f\xff", None, later.encode())
        lead(node)
        await trio.testing.wait_all_tasks_blocked()
        assert committed(node) == [8]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\x01", b"\0\x03" + bytes(30)),
        (b"\0\x01\0\x01G\0\x01t\0\0\0\0", b"\0\x09" + bytes(30)),
        (b"\0\x01\0\x01G\0\x01t\0\0\0\0", b"\0"),
        (None, b""),
    ],
    ids=["torn key", "unknown version", "torn value", "no key"],
)
async def test_partition_with_an_unreadable_record_is_not_served(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, key: bytes | None, value: bytes
) -> None:
    async with running(tmp_path) as node:
        node.create("t")
        node.create(TOPIC)
        append(node, key, value)
        lead(node)
        await trio.testing.wait_all_tasks_blocked()
        reply = node.call(commit(1), 8)
        assert reply.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert node.call(ListGroupsRequest(), 5).error_code == ErrorCode.NONE
        assert node.broker.coordinators.groups.runtime.shards[0].state is ShardState.FAILED


def append(
    node: Node,
    key: bytes | None,
    value: bytes | None,
    *more: tuple[bytes | None, bytes | None],
) -> None:
    batch = build([Record(0, 0, *pair) for pair in ((key, value), *more)])
    node.partition(TOPIC).append(batch, now_ms=0, origin=Origin.COORDINATOR)


async def test_load_fails_if_a_read_returns_no_batch(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a byte in the middle of a batch is taken for its end."""

    class Nothing:
        def read(self) -> bytes:
            return b""

    async with running(tmp_path) as node:
        node.create("t")
        node.create(TOPIC)
        node.call(commit(1), 8)
        monkeypatch.setattr(Partition, "read", lambda *_, **__: Nothing())
        lead(node)
        await trio.testing.wait_all_tasks_blocked()
        assert node.broker.coordinators.groups.runtime.shards[0].state is ShardState.FAILED


async def test_replies_wait_until_their_records_are_committed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        node.create("t")
        node.create(TOPIC)
        partition = node.partition(TOPIC)
        node.lag(TOPIC)
        replies: dict[str, AnyMessage] = {}

        async def ask(request: AnyMessage) -> None:
            reply = await node.start(request, 8)
            replies[type(reply).__name__] = reply

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, commit(3))
            await trio.testing.wait_all_tasks_blocked()
            everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("G", topics=None)])
            nursery.start_soon(ask, everything)
            await trio.testing.wait_all_tasks_blocked()
            assert not replies, "what is not committed is not told"
            partition.advance_high_watermark(partition.log_end_offset, 0)
        assert replies["OffsetCommitResponse"].topics[0].partitions[0].error_code == ErrorCode.NONE
        told = replies["OffsetFetchResponse"].groups[0].topics[0].partitions[0]
        assert told.committed_offset == 3


async def test_reply_is_request_timed_out_after_the_commit_timeout(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path, offsets_commit_timeout_ms="7000") as node:
        node.create("t")
        node.create(TOPIC)
        partition = node.partition(TOPIC)
        node.lag(TOPIC)
        reply, seconds = await node.wait_for(commit(3), 8)
        error = reply.topics[0].partitions[0].error_code
        assert (error, seconds) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, 7.0)
        partition.advance_high_watermark(partition.log_end_offset, 0)  # too late, but harmless
        assert committed(node) == [3]


async def test_parked_requests_get_not_coordinator_when_the_broker_resigns(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    settings = {"group_initial_rebalance_delay_ms": "60000"}
    async with running(tmp_path, **settings) as node:
        node.create(TOPIC)
        join = JoinGroupRequest(
            group_id="G",
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"")],
        )
        replies: list[AnyMessage] = []

        async def ask() -> None:
            replies.append(as_received(await node.start(join, 3), 3))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            node.change_leader(TOPIC, 0, leader=2, leader_epoch=1)
        assert replies[0].error_code == ErrorCode.NOT_COORDINATOR
        assert node.call(join, 3).error_code == ErrorCode.NOT_COORDINATOR
        await trio.sleep(120)  # its timers are gone with it


async def test_shard_keeps_its_state_in_a_later_leader_epoch(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Whoever waits in a group goes on waiting: so Apache Kafka on ZooKeeper when a follower dies.

    Had another broker led in between, all would have to be read again.
    """
    async with running(tmp_path) as node:
        node.create(TOPIC)
        shard = node.broker.coordinators.groups.runtime.shards[0]
        node.change_leader(TOPIC, 0, leader=NODE_ID, leader_epoch=1)
        node.broker.coordinators.leadership_changed(node.partition(TOPIC))
        assert node.broker.coordinators.groups.runtime.shards[0] is shard
        node.change_leader(TOPIC, 0, leader=NODE_ID + 1, leader_epoch=2)
        assert 0 not in node.broker.coordinators.groups.runtime.shards
        node.change_leader(TOPIC, 0, leader=NODE_ID, leader_epoch=3)
        assert node.broker.coordinators.groups.runtime.shards[0] is not shard


async def test_failed_partition_is_loaded_again_in_a_later_epoch(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        node.create(TOPIC)
        node.broker.coordinators.groups.runtime.shards[0].state = ShardState.FAILED
        node.broker.coordinators.leadership_changed(node.partition(TOPIC))
        assert node.broker.coordinators.groups.runtime.shards[0].state is ShardState.ACTIVE


async def test_partition_count_comes_from_the_topic(tmp_path: Path) -> None:
    """Whichever broker of the cluster has made it, by its own settings."""
    async with running(tmp_path) as node:
        node.create("t")
        node.create(TOPIC, 7)
        assert node.broker.coordinators.groups.partition_for("some group") == partition_for(
            "some group", 7
        )
        names = [f"G{number}" for number in range(9)]
        for name in names:
            node.call(commit(1, group_id=name), 8)
        assert sorted(g.group_id for g in node.call(ListGroupsRequest(), 5).groups) == names


async def test_offsets_of_a_deleted_topic_are_deleted(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        node.create("t", 60)
        node.create(TOPIC, max_message_bytes="1024")
        for first in range(0, 60, 6):
            request = commit(1)
            request.topics[0].partitions = [
                OffsetCommitRequestPartition(index, 1, committed_metadata="")
                for index in range(first, first + 6)
            ]
            node.call(request, 8)
        before = node.partition(TOPIC).log_end_offset
        node.delete("t")
        assert committed(node) == []
        batches = batches_of(node.partition(TOPIC), before)
        assert len(batches) > 1, "more than fits into a batch of max.message.bytes"
        assert sum(batches) == 60


async def test_batch_size_counts_long_names(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Two of them fit into max.message.bytes, but not with the header of their batch."""
    group_id = "G" * 470
    async with running(tmp_path) as node:
        node.create("t", 2)
        node.create(TOPIC, max_message_bytes="1024")
        for index in range(2):
            request = commit(1, group_id=group_id)
            request.topics[0].partitions[0].partition_index = index
            node.call(request, 8)
        before = node.partition(TOPIC).log_end_offset
        node.delete("t")
        assert batches_of(node.partition(TOPIC), before) == [1, 1]


def batches_of(partition: Partition, start: int) -> list[int]:
    end = partition.log_end_offset
    region = partition.read(start, 1 << 20, max_offset=end, min_one_batch=True)
    assert region is not None
    return [header.records_count for _, header in iter_batches(region.read())]


async def test_commit_larger_than_max_message_bytes_is_refused(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        node.create("t", 60)
        node.create(TOPIC, max_message_bytes="1024")
        reply = node.call(commit(1, partitions=60), 8)
        errors = {p.error_code for p in reply.topics[0].partitions}
        assert errors == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert committed(node) == []


async def test_commit_without_enough_replicas_is_refused(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        node.create("t")
        node.create(TOPIC, min_insync_replicas="2")
        node.partition(TOPIC).replicas = (NODE_ID, 2)
        reply = node.call(commit(1), 8)
        assert reply.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert node.partition(TOPIC).log_end_offset == 0


async def test_records_use_the_configured_compression(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path, offsets_topic_compression_codec="1") as node:
        node.create("t", 3)
        node.create(TOPIC)
        node.call(commit(1, partitions=3), 8)
        partition = node.partition(TOPIC)
        region = partition.read(0, 1 << 20, max_offset=9, min_one_batch=True)
        assert region is not None
        ((_, header),) = iter_batches(region.read())
        assert (header.compression, header.base_sequence) == (Compression.GZIP, 0)
        assert committed(node) == [1, 1, 1]


async def test_each_request_to_the_wrong_broker_gets_not_coordinator(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Answers of several groups are told apart by their ids."""
    async with running(tmp_path) as node:
        asked = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("G", "H")]
        fetched = node.call(OffsetFetchRequest(groups=asked), 8).groups
        described = node.call(DescribeGroupsRequest(["G", "H"]), 5).groups
        wrong = ErrorCode.NOT_COORDINATOR
        assert [(each.group_id, each.error_code) for each in fetched] == [
            ("G", wrong),
            ("H", wrong),
        ]
        assert [(each.group_id, each.error_code) for each in described] == [
            ("G", wrong),
            ("H", wrong),
        ]
        asked_ids = DescribeTransactionsRequest(["x", "y"])
        states = node.call(asked_ids, 0).transaction_states
        assert [(each.transactional_id, each.error_code) for each in states] == [
            ("x", wrong),
            ("y", wrong),
        ]


def test_each_group_limit_comes_from_a_setting() -> None:
    config = load(
        overrides={
            "group.initial.rebalance.delay.ms": "11",
            "group.min.session.timeout.ms": "12",
            "group.max.session.timeout.ms": "13",
            "group.max.size": "14",
            "offset.metadata.max.bytes": "15",
            "offsets.retention.minutes": "16",
            "offsets.retention.check.interval.ms": "17",
            "group.consumer.max.size": "18",
            "group.consumer.regex.refresh.interval.ms": "19000",
            "transaction.max.timeout.ms": "61000",
            "transactional.id.expiration.ms": "62000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "63",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "64",
        }
    )
    assert groups.limits_of(config) == GroupLimits(11, 12, 13, 14, 15, 16 * 60_000, 17, 18, 19_000)
    assert transactions.limits_of(config) == TransactionLimits(61_000, 62_000, 63, 64)


async def test_find_coordinator_creates_the_offsets_topic(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    node = Node(tmp_path, {"offsets.topic.num.partitions": "4"})
    group = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("G", topics=None)])
    async with trio.open_nursery() as nursery:
        await node.broker.start(nursery)
        assert node.call(group, 8).groups[0].error_code == ErrorCode.NOT_COORDINATOR
        find = FindCoordinatorRequest(coordinator_keys=["G", "H"])
        found = as_received(await node.start(find, 4), 4)
        assert [c.node_id for c in found.coordinators] == [NODE_ID, NODE_ID]
        topic = node.broker.image.topics[TOPIC]
        assert len(topic.partitions) == 4
        assert node.partition(TOPIC).log.config.cleanup_policy == {"compact"}
        assert node.call(group, 8).groups[0].error_code == ErrorCode.NONE
        again = node.call(FindCoordinatorRequest(coordinator_keys=["G"]), 4)
        assert again.coordinators == found.coordinators[:1]
        nursery.cancel_scope.cancel()
    node.close()


def test_groups_are_stored_in_the_partitions_of_javas_hash() -> None:
    known: list[tuple[str, int]] = [
        ("", 0),
        ("a", 97),
        ("polygenelubricants", -(1 << 31)),  # the hash without an absolute value
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ]
    for text, value in known:
        assert string_hash(text) == value, text
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("a", 50) == 47
