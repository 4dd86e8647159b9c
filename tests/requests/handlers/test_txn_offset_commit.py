"""TxnOffsetCommit and the transaction coordinator: the verification, and its errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import trio.testing

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kwire.coordinators.runtime.promise import Promise
from tests.requests.handlers.node import Node, as_received
from tests.requests.handlers.test_transactional_produce import Coordinator

VERIFIED, ABORTABLE, IMPLICIT, TOPIC_IDS = 3, 4, 5, 6
"""Versions of TxnOffsetCommit, by how they are verified."""
TOPIC = "__consumer_offsets"


@pytest.fixture
def verifying(make_node: Callable[..., Node]) -> Callable[..., tuple[Node, Coordinator]]:
    """A broker with a group coordinator, and a transaction coordinator with these answers."""

    def make(
        *answers: ErrorCode | Promise[Any], settings: Mapping[str, str] | None = None
    ) -> tuple[Node, Coordinator]:
        node, coordinator = make_node(settings), Coordinator(*answers)
        vars(node.broker.coordinators)["_transactions"] = coordinator
        node.broker.coordinators.groups.partitions = 1
        node.create("t")
        node.create(TOPIC)
        node.partition(TOPIC).log.producers.verify_transactions = True
        return node, coordinator

    return make


def request(group_id: str = "G", topic: str = "t") -> TxnOffsetCommitRequest:
    place = TxnOffsetCommitRequestPartition(0, 5)
    topics = [TxnOffsetCommitRequestTopic(topic, partitions=[place])]
    return TxnOffsetCommitRequest("x", group_id, 7, 0, topics=topics)


def by_id(*topic_ids: bytes, epoch: int = -1) -> TxnOffsetCommitRequest:
    places = [TxnOffsetCommitRequestPartition(0, 5), TxnOffsetCommitRequestPartition(9, 5)]
    topics = [TxnOffsetCommitRequestTopic("", topic_id, [*places]) for topic_id in topic_ids]
    return TxnOffsetCommitRequest("x", "G", 7, 0, epoch, "m" if epoch >= 0 else "", topics=topics)


def answers(reply: TxnOffsetCommitResponse) -> list[tuple[bytes, list[tuple[int, ErrorCode]]]]:
    return [
        (t.topic_id, [(p.partition_index, ErrorCode(p.error_code)) for p in t.partitions])
        for t in reply.topics
    ]


def told(reply: TxnOffsetCommitResponse) -> ErrorCode:
    return ErrorCode(reply.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(
    ("version", "kind"), [(VERIFIED, "verify"), (ABORTABLE, "verify"), (IMPLICIT, "add")]
)
async def test_txn_offset_commit_verifies_the_groups_partition_once(
    verifying: Callable[..., tuple[Node, Coordinator]], version: int, kind: str
) -> None:
    node, coordinator = verifying(ErrorCode.NONE)
    for _ in range(2):
        assert told(node.call(request(), version)) == ErrorCode.NONE
    assert coordinator.asked == [(kind, {TOPIC: frozenset({0})})]


@pytest.mark.parametrize(
    ("version", "answer", "error"),
    [
        (VERIFIED, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (IMPLICIT, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (IMPLICIT, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (VERIFIED, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_txn_offset_commit_maps_errors_of_the_coordinator(
    verifying: Callable[..., tuple[Node, Coordinator]],
    version: int,
    answer: ErrorCode,
    error: ErrorCode,
) -> None:
    node, _ = verifying(answer)
    assert told(node.call(request(), version)) == error
    assert node.partition(TOPIC).log_end_offset == 0


async def test_txn_offset_commit_with_invalid_fields_is_not_verified(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    node, coordinator = verifying(ErrorCode.NONE)
    assert told(node.call(request(group_id=""), IMPLICIT)) == ErrorCode.INVALID_GROUP_ID
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(node.call(request(topic="none"), IMPLICIT)) == unknown
    assert coordinator.asked == []


async def test_txn_offset_commit_waits_for_the_end_of_the_previous_transaction(
    verifying: Callable[..., tuple[Node, Coordinator]], autojump_clock: trio.testing.MockClock
) -> None:
    node, coordinator = verifying(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE)
    reply, seconds = await node.wait_for(request(), IMPLICIT)
    assert (told(reply), seconds) == (ErrorCode.NONE, 0.02)
    assert len(coordinator.asked) == 2


async def test_txn_offset_commit_waits_for_a_remote_coordinator(
    verifying: Callable[..., tuple[Node, Coordinator]], autojump_clock: trio.testing.MockClock
) -> None:
    promise: Promise[Any] = Promise()
    node, _ = verifying(promise)
    waits = node.start(request(), ABORTABLE)
    assert isinstance(waits, Awaitable)
    promise.resolve({(TOPIC, 0): ErrorCode.NONE})
    assert told(as_received(await waits, ABORTABLE)) == ErrorCode.NONE
    assert node.partition(TOPIC).log_end_offset == 1


async def test_txn_offset_commit_v6_finds_topics_by_id(
    verifying: Callable[..., tuple[Node, Coordinator]],
) -> None:
    node, _ = verifying(ErrorCode.NONE)
    known, unknown, zero = node.broker.image.topics["t"].id, b"u" * 16, bytes(16)
    reply = node.call(by_id(unknown, known, zero), TOPIC_IDS)
    no_id = ErrorCode.UNKNOWN_TOPIC_ID
    assert answers(reply) == [
        (unknown, [(0, no_id), (9, no_id)]),
        (known, [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (0, ErrorCode.NONE)]),
        (zero, [(0, no_id), (9, no_id)]),
    ]
    assert node.partition(TOPIC).log_end_offset == 1


@pytest.mark.parametrize(
    ("version", "error"),
    [(IMPLICIT, ErrorCode.ILLEGAL_GENERATION), (TOPIC_IDS, ErrorCode.GROUP_ID_NOT_FOUND)],
)
async def test_txn_offset_commit_of_a_member_to_a_missing_group_has_the_versions_error(
    verifying: Callable[..., tuple[Node, Coordinator]], version: int, error: ErrorCode
) -> None:
    node, _ = verifying(ErrorCode.NONE)
    of_member = by_id(node.broker.image.topics["t"].id, epoch=1)
    of_member.topics[0].name = "t"
    of_member.topics[0].partitions.pop()
    assert told(node.call(of_member, version)) == error
