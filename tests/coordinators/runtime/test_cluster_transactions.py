"""Transactions over partitions of several brokers, with coordinators that move and stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cluster.peers.peer import Peer
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kwire.codecs.messages.write_txn_markers import WriteTxnMarkersRequest
from kwire.coordinators.runtime.remote_markers import RemoteMarker, RemoteMarkers
from kwire.storage.partitions.partition import Partition
from kwire.storage.partitions.txn_marker import TxnMarker
from tests.coordinators.runtime.cluster import STATE, Cluster, Member, cluster
from tests.coordinators.runtime.producing import Producer
from tests.inside import until

pytestmark = pytest.mark.slow

ALONE = {"transaction.partition.verification.enable": "false"}
"""These tests are about markers."""


async def begin(made: Cluster, *, to: tuple[int, ...] = (0, 1, 2)) -> Producer:
    """A transaction that has written to partitions of `t`."""
    producer = Producer(await made.until_served(STATE))
    await producer.init()
    assert set(await producer.add("t", to)) == {ErrorCode.NONE}
    for index in to:
        leader = made.members[made.topics["t"][index].leader]
        assert await producer.produce(leader, "t", index) is ErrorCode.NONE
    return producer


async def state_of(coordinator: Member) -> str:
    answer = await coordinator.ask(
        DescribeTransactionsRequest(["x"]), 0, DescribeTransactionsResponse
    )
    (told,) = answer.transaction_states
    return told.transaction_state if not told.error_code else ErrorCode(told.error_code).name


def is_open(partition: Partition) -> bool:
    return partition.log.first_unstable_offset is not None


def leading(made: Cluster, index: int) -> Partition:
    return made.members[made.topics["t"][index].leader].partition("t", index)


async def test_markers_reach_leaders_on_other_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path, 1, 2, 3, settings=ALONE) as made:
        made.create(STATE, (1, 2, 3))
        made.create("t", (1,), (2, 3), (3, 2), (2,))
        producer = await begin(made, to=(0, 1, 2, 3))
        requests = note_requests(monkeypatch)
        assert await producer.end(commit=True) is ErrorCode.NONE
        await until(lambda: not any(is_open(leading(made, index)) for index in range(4)))
        assert [leading(made, index).log_end_offset for index in range(4)] == [2] * 4
        assert sorted(requests) == [(2, {"t": [1, 3]}), (3, {"t": [2]})]
        shard = producer.coordinator.broker.coordinators.transactions.runtime.shards[0]
        await until(lambda: shard.machine.transactions["x"].state.label == "CompleteCommit")
        assert await producer.add("t", (0,)) == [ErrorCode.NONE]


def note_requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, dict[str, list[int]]]]:
    """The WriteTxnMarkers requests from now on: to which broker, for which partitions."""
    noted: list[tuple[int, dict[str, list[int]]]] = []
    call = Peer.call

    async def noting(peer: Peer, request: Any, **options: Any) -> Any:  # noqa: ANN401 - as Peer's
        if isinstance(request, WriteTxnMarkersRequest):
            places = {
                topic.name: sorted(topic.partition_indexes)
                for marker in request.markers
                for topic in marker.topics
            }
            noted.append((peer.broker_id, places))
        return await call(peer, request, **options)

    monkeypatch.setattr(Peer, "call", noting)
    return noted


async def test_next_coordinator_ends_a_decided_transaction(tmp_path: Path) -> None:
    """Broker 3 leads a partition and is not to be reached; then the coordinator goes too."""
    async with cluster(tmp_path, 1, 2, 3, settings=ALONE) as made:
        made.create(STATE, (1, 2))
        made.create("t", (2,), (2,), (3,))
        producer = await begin(made)
        stuck = made.members[3].partition("t", 2)
        stuck.leader = -1
        assert await producer.end(commit=False) is ErrorCode.NONE
        await until(lambda: not is_open(leading(made, 0)) and not is_open(leading(made, 1)))
        assert await state_of(made.members[1]) == "PrepareAbort"
        await made.end(1)
        coordinator = await made.until_served(STATE)
        assert coordinator is made.members[2]
        assert await state_of(coordinator) == "PrepareAbort"
        stuck.leader = 3
        await until(lambda: not is_open(stuck))
        shard = coordinator.broker.coordinators.transactions.runtime.shards[0]
        await until(lambda: shard.machine.transactions["x"].state.label == "CompleteAbort")
        producer.coordinator = coordinator
        await producer.init()
        assert producer.epoch == 1


async def test_markers_of_a_deposed_coordinator_are_fenced(tmp_path: Path) -> None:
    """Its successor has written markers, of a later epoch: its own count no longer."""
    async with trio.open_nursery() as nursery, cluster(tmp_path, 1, 2, settings=ALONE) as made:
        made.create(STATE, (1, 2))
        made.create("t", (1,), (2,))
        producer = await begin(made, to=(0, 1))
        deposed = made.members[1].broker
        made.elect(STATE, 0, 2)
        producer.coordinator = await made.until_served(STATE)
        assert 0 not in deposed.coordinators.transactions.runtime.shards
        assert await producer.end(commit=True) is ErrorCode.NONE
        await until(lambda: not is_open(leading(made, 0)) and not is_open(leading(made, 1)))
        for index in range(2):
            entry = leading(made, index).log.producers.entries[producer.id]
            assert entry.coordinator_epoch == 1
        late = TxnMarker(producer.id, producer.epoch, 0, False, 0)
        told: list[ErrorCode] = []
        remote = RemoteMarkers(made.members[1].host.peers, nursery, 30_000)
        remote.send(2, RemoteMarker(late, "t", 1, lambda *it: told.append(it[2]), lambda: True))
        await until(lambda: bool(told))
        assert told == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]


async def test_transaction_completes_without_markers_for_deleted_partitions(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, settings=ALONE) as made:
        made.create(STATE, (1,))
        made.create("t", (1,), (2,))
        producer = await begin(made, to=(0, 1))
        made.members[2].partition("t", 1).leader = -1
        assert await producer.end(commit=True) is ErrorCode.NONE
        shard = producer.coordinator.broker.coordinators.transactions.runtime.shards[0]
        assert shard.machine.transactions["x"].state.label == "PrepareCommit"
        made.delete("t")
        await until(lambda: shard.machine.transactions["x"].state.label == "CompleteCommit")


async def test_unreachable_broker_gets_its_markers_when_it_returns(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, settings=ALONE) as made:
        made.create(STATE, (1,))
        made.create("t", (1,), (2,))
        producer = await begin(made, to=(0, 1))
        await made.end(2)
        assert await producer.end(commit=True) is ErrorCode.NONE
        shard = producer.coordinator.broker.coordinators.transactions.runtime.shards[0]
        assert shard.machine.transactions["x"].state.label == "PrepareCommit"
        made.elect("t", 1, 2)
        await made.start(2)
        await until(lambda: shard.machine.transactions["x"].state.label == "CompleteCommit")
        assert not is_open(made.members[2].partition("t", 1))
