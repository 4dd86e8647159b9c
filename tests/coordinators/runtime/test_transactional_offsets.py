"""Transactional offsets in the runtime: markers, a load at any step, waiting, expiry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio
import trio.testing

from kwire.codecs.batches import iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.coordinators.runtime.test_coordinator_runtime import TOPIC, commit, lead, running
from tests.requests.handlers.node import Node, as_received

AnyMessage = Any
"""A response of any kind."""


def txn_commit(node: Node, producer_id: int, offset: int, partition: int = 0) -> ErrorCode:
    """A commit of a transaction that the coordinator knows."""
    place = TxnOffsetCommitRequestPartition(partition, offset)
    request = TxnOffsetCommitRequest(
        "x", "G", producer_id, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=[place])]
    )
    reply = node.broker.coordinators.groups.commit_transactional_offsets(request, 5, None)
    assert isinstance(reply, TxnOffsetCommitResponse), "it does not wait"
    return ErrorCode(reply.topics[0].partitions[0].error_code)


def markers(
    producer_id: int, *, commit: bool = True, epoch: int = 0, version: int = 1
) -> WriteTxnMarkersRequest:
    place = WritableTxnMarkerTopic(TOPIC, [0])
    marker = WritableTxnMarker(producer_id, epoch, commit, [place], 0, version)
    return WriteTxnMarkersRequest([marker])


def told(reply: AnyMessage) -> ErrorCode:
    return ErrorCode(reply.markers[0].topics[0].partitions[0].error_code)


def end(node: Node, producer_id: int, *, commit: bool = True) -> ErrorCode:
    return told(node.call(markers(producer_id, commit=commit), 2))


def offsets(node: Node) -> list[tuple[int, int, int]]:
    """(offset, whether it is stable, offset as told with require_stable) of three partitions."""
    found = []
    for stable in (False, True):
        topics = [OffsetFetchRequestTopics("t", partition_indexes=[0, 1, 2])]
        group = OffsetFetchRequestGroup("G", topics=topics)
        reply = node.call(OffsetFetchRequest(groups=[group], require_stable=stable), 8)
        found.append(reply.groups[0].topics[0].partitions)
    return [
        (plain.committed_offset, stable.error_code, stable.committed_offset)
        for plain, stable in zip(*found, strict=True)
    ]


UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


async def test_pending_offsets_apply_at_the_commit_marker(tmp_path: Path) -> None:
    """The first of Apache Kafka's producer ids is 0."""
    async with running(tmp_path) as node:
        node.create("t", 3)
        node.create(TOPIC)
        assert txn_commit(node, 0, 5) == ErrorCode.NONE
        assert txn_commit(node, 1, 6, partition=1) == ErrorCode.NONE
        assert offsets(node) == [(-1, UNSTABLE, -1), (-1, UNSTABLE, -1), (-1, 0, -1)]
        assert end(node, 0) == ErrorCode.NONE
        assert end(node, 1, commit=False) == ErrorCode.NONE
        assert offsets(node) == [(5, 0, 5), (-1, 0, -1), (-1, 0, -1)]


async def test_offsets_batch_has_the_producers_id_and_epoch(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.create("t", 3)
        node.create(TOPIC)
        txn_commit(node, 7, 5)
        end(node, 7)
        region = node.partition(TOPIC).read(0, 1 << 20, max_offset=9, min_one_batch=True)
        assert region is not None
        headers = [header for _, header in iter_batches(region.read())]
        assert [(h.producer_id, h.producer_epoch, h.is_transactional) for h in headers] == [
            (7, 0, True),
            (7, 0, True),
        ]
        assert [h.is_control for h in headers] == [False, True]


async def test_marker_of_transaction_version_2_fences_its_epoch(tmp_path: Path) -> None:
    """KIP-890: one in the epoch of the records is one of before, that came late."""
    async with running(tmp_path) as node:
        node.create("t", 3)
        node.create(TOPIC)
        txn_commit(node, 7, 5)
        late = markers(7, epoch=0, version=2)
        assert told(node.call(late, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert told(node.call(markers(7, epoch=1, version=2), 2)) == ErrorCode.NONE
        assert offsets(node)[0] == (5, 0, 5)


async def test_load_restores_pending_offsets_at_every_step(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        node.create("t", 3)
        node.create(TOPIC)

        async def same_after_loading() -> None:
            before = offsets(node)
            lead(node)
            await trio.testing.wait_all_tasks_blocked()
            assert offsets(node) == before

        for step in (
            lambda: txn_commit(node, 7, 5),
            lambda: node.call(commit(9), 8).topics[0].partitions[0].error_code,
            lambda: txn_commit(node, 8, 6),
            lambda: txn_commit(node, 8, 6, partition=1),
            lambda: end(node, 7),
            lambda: txn_commit(node, 7, 4, partition=2),
            lambda: end(node, 8),
            lambda: end(node, 7, commit=False),
        ):
            assert step() == ErrorCode.NONE
            await same_after_loading()
        assert offsets(node) == [(6, 0, 6), (6, 0, 6), (-1, 0, -1)]


async def test_marker_is_refused_until_the_partition_is_loaded(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Else its offsets would be lost: the coordinator tries again."""
    async with running(tmp_path) as node:
        node.create("t", 3)
        node.create(TOPIC)
        txn_commit(node, 7, 5)
        lead(node)
        before = node.partition(TOPIC).log_end_offset
        assert end(node, 7) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.partition(TOPIC).log_end_offset == before
        await trio.testing.wait_all_tasks_blocked()
        assert end(node, 7) == ErrorCode.NONE
        assert offsets(node)[0] == (5, 0, 5)


async def test_marker_is_answered_once_it_is_committed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        node.create("t", 3)
        node.create(TOPIC)
        txn_commit(node, 7, 5)
        partition = node.partition(TOPIC)
        node.lag(TOPIC)
        replies: list[AnyMessage] = []

        async def ask() -> None:
            replies.append(as_received(await node.start(markers(7), 2), 2))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert not replies, "what is not committed is not told"
            partition.advance_high_watermark(partition.log_end_offset, 0)
        assert [told(reply) for reply in replies] == [ErrorCode.NONE]


async def test_group_with_only_pending_offsets_does_not_expire(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    settings = {"offsets_retention_check_interval_ms": "1000", "offsets_retention_minutes": "1"}
    async with running(tmp_path, **settings) as node:
        node.create("t", 3)
        node.create(TOPIC)
        txn_commit(node, 7, 5)
        await trio.sleep(10)
        assert groups(node) == ["G"]
        end(node, 7, commit=False)
        await trio.sleep(10)
        assert groups(node) == []


def groups(node: Node) -> list[str]:
    return [group.group_id for group in node.call(ListGroupsRequest(), 5).groups]
