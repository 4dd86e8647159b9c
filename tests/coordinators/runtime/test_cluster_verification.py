"""Verification of transactional batches whose coordinator is on another broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cluster.peers.peer import Peer
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.codecs.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.coordinators.runtime.cluster import OFFSETS, STATE, Cluster, Member, cluster
from tests.coordinators.runtime.producing import Producer
from tests.inside import until

pytestmark = pytest.mark.slow

VERIFIED, ABORTABLE, IMPLICIT = 9, 11, 12
"""Versions of Produce, by how they are verified."""


async def begun(made: Cluster, transactional_id: str = "x") -> Producer:
    producer = Producer(await made.until_served(STATE), transactional_id)
    await producer.init()
    return producer


def note_requests(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, bool]]]:
    """The questions from now on: which ids, and whether it was only asked."""
    noted: list[list[tuple[str, bool]]] = []
    call = Peer.call

    async def noting(peer: Peer, request: Any, **options: Any) -> Any:  # noqa: ANN401 - as Peer's
        if isinstance(request, AddPartitionsToTxnRequest):
            noted.append(
                [(each.transactional_id, each.verify_only) for each in request.transactions]
            )
        return await call(peer, request, **options)

    monkeypatch.setattr(Peer, "call", noting)
    return noted


async def test_produce_is_refused_to_a_partition_outside_the_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path, 1, 2) as made:
        made.create(STATE, (1,))
        made.create("t", (2,), (2,), (1,))
        producer = await begun(made)
        leader = made.members[2]
        noted = note_requests(monkeypatch)
        assert await producer.add("t", (0,)) == [ErrorCode.NONE]
        assert await producer.produce(leader, "t", 0) is ErrorCode.NONE
        assert await producer.produce(leader, "t", 1) is ErrorCode.INVALID_TXN_STATE
        told = await producer.produce(leader, "t", 1, version=ABORTABLE)
        assert told is ErrorCode.TRANSACTION_ABORTABLE
        assert noted == [[("x", True)]] * 3
        assert await producer.produce(made.members[1], "t", 2) is ErrorCode.INVALID_TXN_STATE
        assert len(noted) == 3, "the coordinator is there"
        producer.epoch += 1
        assert await producer.produce(leader, "t", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        producer.id += 1
        assert await producer.produce(leader, "t", 1) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert leader.partition("t", 1).log_end_offset == 0


async def test_produce_adds_its_partition_to_the_transaction(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as made:
        made.create(STATE, (1,))
        made.create("t", (2,), (1,))
        producer = await begun(made)
        for index, leader in ((0, 2), (1, 1)):
            told = await producer.produce(made.members[leader], "t", index, version=IMPLICIT)
            assert told is ErrorCode.NONE
        machine = producer.coordinator.broker.coordinators.transactions.runtime.shards[0].machine
        assert machine.transactions["x"].partitions == {"t": frozenset({0, 1})}
        assert await producer.end(commit=True) is ErrorCode.NONE
        partition = made.members[2].partition("t", 0)
        await until(lambda: partition.log.first_unstable_offset is None)


async def test_queries_about_many_transactions_share_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request at a time: what comes up while the coordinator is asked shares the next."""
    async with cluster(tmp_path, 1, 2) as made:
        made.create(STATE, (1,))
        made.create("t", *[(2,)] * 20)
        producers = [await begun(made, f"x{number}") for number in range(20)]
        noted = note_requests(monkeypatch)
        told: list[ErrorCode] = []

        async def write(number: int) -> None:
            producer = producers[number]
            assert await producer.add("t", (number,)) == [ErrorCode.NONE]
            told.append(await producer.produce(made.members[2], "t", number))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(write, number)
        assert told == [ErrorCode.NONE] * 20
        assert sorted(each for asked in noted for each, _ in asked) == sorted(
            producer.transactional_id for producer in producers
        )
        assert len(noted) < 20


async def test_produce_is_retriable_while_no_coordinator_answers(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as made:
        made.create(STATE, (1,))
        made.create("t", (2,))
        producer = await begun(made)
        assert await producer.add("t", (0,)) == [ErrorCode.NONE]
        leader = made.members[2]
        await made.stop(1)  # nobody has noticed
        assert await producer.produce(leader, "t") is ErrorCode.NOT_ENOUGH_REPLICAS
        made.elect(STATE, 0, -1)
        assert await producer.produce(leader, "t") is ErrorCode.NOT_ENOUGH_REPLICAS
        await made.start(1)
        made.elect(STATE, 0, 1)
        producer.coordinator = await made.until_served(STATE)
        assert await producer.produce(leader, "t") is ErrorCode.NONE


async def test_produce_is_retriable_if_the_asked_broker_has_resigned(tmp_path: Path) -> None:
    """The leader of the batch's partition has not heard of the next one."""
    async with cluster(tmp_path, 1, 2, 3) as made:
        made.create(STATE, (1, 3))
        made.create("t", (2,))
        producer = await begun(made)
        assert await producer.add("t", (0,)) == [ErrorCode.NONE]
        leader = made.members.pop(2)
        made.elect(STATE, 0, 3)
        await made.until_served(STATE)
        assert await producer.produce(leader, "t") is ErrorCode.NOT_ENOUGH_REPLICAS
        made.members[2] = leader
        made.tell()
        assert await producer.produce(leader, "t") is ErrorCode.NONE


def commit_of(producer: Producer, topic_id: bytes) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(0, 7, committed_metadata="")
    return TxnOffsetCommitRequest(
        producer.transactional_id,
        "g",
        producer.id,
        producer.epoch,
        topics=[TxnOffsetCommitRequestTopic("t", topic_id, [partition])],
    )


async def commit(group_coordinator: Member, producer: Producer, version: int) -> ErrorCode:
    topic_id = group_coordinator.broker.image.topics["t"].id
    request = commit_of(producer, topic_id)
    answer = await group_coordinator.ask(request, version, TxnOffsetCommitResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def test_offsets_commit_in_a_transaction_of_another_broker(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2) as made:
        made.create(STATE, (1,))
        made.create(OFFSETS, (2,))
        made.create("t", (1,))
        producer = await begun(made)
        groups = await made.until_served(OFFSETS)
        assert await commit(groups, producer, 3) is ErrorCode.INVALID_TXN_STATE
        assert await commit(groups, producer, 4) is ErrorCode.TRANSACTION_ABORTABLE
        added = AddOffsetsToTxnRequest("x", producer.id, producer.epoch, "g")
        answer = await producer.coordinator.ask(added, 3, AddOffsetsToTxnResponse)
        assert answer.error_code == ErrorCode.NONE
        assert await commit(groups, producer, 3) is ErrorCode.NONE
        offsets = groups.broker.coordinators.groups.runtime.shards[0].machine.offsets
        assert offsets.get("g", "t", 0) is None
        assert await producer.end(commit=True) is ErrorCode.NONE
        await until(lambda: offsets.get("g", "t", 0) is not None)
        await made.stop(1)
        assert await commit(groups, producer, 3) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", [5, 6])
async def test_txn_offset_commit_adds_the_groups_partition(tmp_path: Path, version: int) -> None:
    async with cluster(tmp_path, 1, 2) as made:
        made.create(STATE, (1,))
        made.create(OFFSETS, (2,))
        made.create("t", (1,))
        producer = await begun(made)
        groups = await made.until_served(OFFSETS)
        assert await commit(groups, producer, version) is ErrorCode.NONE
        machine = producer.coordinator.broker.coordinators.transactions.runtime.shards[0].machine
        assert machine.transactions["x"].partitions == {OFFSETS: frozenset({0})}
