"""Transactions from InitProducerId to their markers, with restarts and failures in between.

A coordinator that loads its partition again has only the state in the log, as after a kill.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kwire.broker.broker import Broker
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.codecs.messages.list_transactions import ListTransactionsRequest
from kwire.coordinators.runtime.markers import AT_ONCE, Settle, Write
from kwire.coordinators.runtime.runtime import ShardState
from kwire.coordinators.runtime.transactions import TransactionCoordinator
from kwire.log import aborted_in
from kwire.txn.effects import Markers, TransactionEffects
from kwire.txn.machine import TransactionMachine
from tests.requests.handlers.node import NODE_ID, Node, as_received

ID = "x"
TOPIC = "t"
STATE_TOPIC = "__transaction_state"
SMALL = 4
LARGE = 2 * AT_ONCE + 3
START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's clock goes with that of the loop, which jumps."""
    now_ms = staticmethod(lambda: START_MS + int(trio.current_time() * 1000))
    monkeypatch.setattr(Broker, "now_ms", now_ms)


@asynccontextmanager
async def running(
    directory: Path, partitions: int = SMALL, *, state_partitions: int = 1
) -> AsyncIterator[Node]:
    node = Node(directory)
    node.create(TOPIC, partitions)
    async with trio.open_nursery() as nursery:
        node.broker.node.nursery = nursery
        nursery.start_soon(node.broker.node.timers.run)
        node.create(STATE_TOPIC, state_partitions, cleanup_policy="compact")
        yield node
        nursery.cancel_scope.cancel()
    node.close()


async def ask(node: Node, request: Any, version: int) -> Any:  # noqa: ANN401 - by request
    reply = node.start(request, version)
    if isinstance(reply, Awaitable):
        reply = await reply
    return as_received(reply, version)


async def init(node: Node, timeout_ms: int = 60_000) -> InitProducerIdResponse:
    reply: InitProducerIdResponse = await ask(node, InitProducerIdRequest(ID, timeout_ms), 5)
    return reply


async def begin(node: Node, partitions: int = SMALL, timeout_ms: int = 60_000) -> int:
    """Open a transaction and write to each of its partitions; the producer's id."""
    producer = await init(node, timeout_ms)
    assert producer.error_code == ErrorCode.NONE
    await write(node, producer, partitions)
    return producer.producer_id


async def write(node: Node, producer: InitProducerIdResponse, partitions: int) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, list(range(partitions)))],
    )
    await ask(node, request, 3)
    for index in range(partitions):
        numbered = (producer.producer_id, producer.producer_epoch, 0)
        node.append(TOPIC, index, producer=numbered, transactional=True)


async def end(node: Node, producer_id: int, *, commit: bool, epoch: int = 0) -> ErrorCode:
    reply = await ask(node, EndTxnRequest(ID, producer_id, epoch, commit), 4)
    return ErrorCode(reply.error_code)


def state(node: Node) -> str:
    reply = node.call(DescribeTransactionsRequest([ID]), 0)
    (described,) = reply.transaction_states
    assert described.error_code == ErrorCode.NONE
    told: str = described.transaction_state
    return told


def open_partitions(node: Node, partitions: int = SMALL) -> list[int]:
    """Where the transaction holds back readers of committed records."""
    found = (node.partition(TOPIC, index) for index in range(partitions))
    return [p.index for p in found if p.last_stable_offset < p.log_end_offset]


def aborted_partitions(node: Node) -> list[int]:
    """Where readers of committed records are told to skip what is there."""
    found = []
    for index in range(SMALL):
        partition = node.partition(TOPIC, index)
        end_offset = partition.log_end_offset
        region = partition.read(0, 1 << 20, max_offset=end_offset, min_one_batch=True)
        assert region is not None
        if aborted_in(partition.log, region):
            found.append(index)
    return found


def lead_again(node: Node, index: int = 0) -> None:
    """Have the node take up a partition as after others have led it."""
    node.broker.coordinators.transactions.resign(index)
    node.broker.coordinators.transactions.lead(node.partition(STATE_TOPIC, index))


async def take_up_again(node: Node) -> None:
    """As after a kill: all that is left is in the log."""
    lead_again(node)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("commit", [True, False])
async def test_small_transaction_has_its_markers_before_end_txn_is_answered(
    tmp_path: Path, commit: bool
) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        assert state(node) == "Ongoing"
        assert open_partitions(node) == list(range(SMALL))
        assert await end(node, producer_id, commit=commit) is ErrorCode.NONE
        assert state(node) == ("CompleteCommit" if commit else "CompleteAbort")
        assert open_partitions(node) == []
        assert not node.broker.coordinators.transactions._markers.at_once, (
            "what follows is no request"
        )


async def test_large_transaction_writes_its_markers_in_slices(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path, LARGE) as node:
        producer_id = await begin(node, LARGE)
        assert await end(node, producer_id, commit=True) is ErrorCode.NONE
        assert state(node) == "PrepareCommit"
        assert len(open_partitions(node, LARGE)) == LARGE
        assert (await init(node)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        await trio.sleep(1)
        assert state(node) == "CompleteCommit"
        assert open_partitions(node, LARGE) == []


def lose_markers_after(count: int) -> Callable[..., Write]:
    """What writes that many markers, and then nothing any more."""
    make_writer = TransactionCoordinator.writer
    left = count

    def writer(self: TransactionCoordinator, markers: Markers, settle: Settle) -> Write:
        write_one = make_writer(self, markers, settle)

        def write(topic: str, partition: int) -> ErrorCode | None:
            nonlocal left
            left -= 1
            return write_one(topic, partition) if left >= 0 else None

        return write

    return writer


@pytest.mark.parametrize("written", [0, 1, SMALL - 1])
@pytest.mark.parametrize("commit", [True, False])
async def test_decided_transaction_ends_after_a_restart_without_markers(
    tmp_path: Path,
    commit: bool,
    written: int,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        with monkeypatch.context() as killed:
            killed.setattr(TransactionCoordinator, "writer", lose_markers_after(written))
            assert await end(node, producer_id, commit=commit) is ErrorCode.NONE
            assert state(node) == ("PrepareCommit" if commit else "PrepareAbort")
            assert len(open_partitions(node)) == SMALL - written
        await take_up_again(node)
        await trio.sleep(1)
        assert state(node) == ("CompleteCommit" if commit else "CompleteAbort")
        assert open_partitions(node) == []
        assert aborted_partitions(node) == ([] if commit else list(range(SMALL)))


async def test_transaction_completes_after_a_restart_without_completion_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        with monkeypatch.context() as killed:
            killed.setattr(TransactionMachine, "markers_written", lambda *_: TransactionEffects())
            await end(node, producer_id, commit=True)
            assert state(node) == "PrepareCommit"
            assert open_partitions(node) == []
        await take_up_again(node)
        await trio.sleep(1)
        assert state(node) == "CompleteCommit"
        assert (await init(node)).producer_epoch == 1


async def test_open_transaction_continues_after_a_restart(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        await take_up_again(node)
        await trio.sleep(30)
        assert state(node) == "Ongoing"
        assert await end(node, producer_id, commit=True) is ErrorCode.NONE
        assert open_partitions(node) == []


async def test_timed_out_transaction_is_aborted_after_a_restart(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The time counts from its start, whoever coordinates it."""
    async with running(tmp_path) as node:
        producer_id = await begin(node, timeout_ms=15_000)
        await trio.sleep(12)
        await take_up_again(node)
        assert state(node) == "Ongoing"
        await trio.sleep(12)
        assert state(node) == "CompleteAbort"
        assert open_partitions(node) == []
        assert await end(node, producer_id, commit=True) is ErrorCode.PRODUCER_FENCED


async def test_new_producer_aborts_the_open_transaction_of_the_previous_one(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        assert (await init(node)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert open_partitions(node) == []
        second = await init(node)
        assert (second.error_code, second.producer_epoch) == (ErrorCode.NONE, 2)
        assert await end(node, producer_id, commit=True) is ErrorCode.PRODUCER_FENCED


async def test_deleted_partition_gets_no_marker(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        node.delete(TOPIC)
        assert await end(node, producer_id, commit=True) is ErrorCode.NONE
        assert state(node) == "CompleteCommit"


async def test_marker_is_retried_while_its_partition_has_no_leader_here(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        node.change_leader(TOPIC, 1, leader=NODE_ID + 1, leader_epoch=1)
        await end(node, producer_id, commit=True)
        await trio.sleep(5)
        assert state(node) == "PrepareCommit"
        assert open_partitions(node) == [1]
        node.change_leader(TOPIC, 1, leader=NODE_ID, leader_epoch=2)
        await trio.sleep(1)
        assert state(node) == "CompleteCommit"
        assert open_partitions(node) == []


async def test_requests_get_load_in_progress_during_a_load(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        lead_again(node)
        busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await end(node, producer_id, commit=True) is busy
        reply = node.call(ListTransactionsRequest(["nothing"]), 2)
        assert (reply.error_code, reply.unknown_state_filters) == (busy, [])
        await trio.testing.wait_all_tasks_blocked()
        assert await end(node, producer_id, commit=True) is ErrorCode.NONE


async def test_partition_loads_without_producer_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives them may be away for long."""
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        monkeypatch.setattr(node.broker.node.producer_ids, "restock", trio.sleep_forever)
        await take_up_again(node)
        assert await end(node, producer_id, commit=True) is ErrorCode.NONE


async def test_coordinator_keeps_its_state_in_a_later_leader_epoch(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Markers that wait for their partitions are written, by the epoch of now."""
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        node.change_leader(TOPIC, 1, leader=NODE_ID + 1, leader_epoch=1)
        assert await end(node, producer_id, commit=True) is ErrorCode.NONE
        shard = node.broker.coordinators.transactions.runtime.shards[0]
        node.change_leader(STATE_TOPIC, 0, leader=NODE_ID, leader_epoch=1)
        node.broker.coordinators.leadership_changed(node.partition(STATE_TOPIC))
        assert node.broker.coordinators.transactions.runtime.shards[0] is shard
        assert shard.state is ShardState.ACTIVE
        node.change_leader(TOPIC, 1, leader=NODE_ID, leader_epoch=2)
        await trio.sleep(1)
        assert state(node) == "CompleteCommit"
        assert open_partitions(node) == []


async def test_coordinator_leads_before_metadata_has_the_topic(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """LeaderAndIsr comes before UpdateMetadata: what was decided is ended once both are there."""
    async with running(tmp_path, state_partitions=7) as node:
        broker = node.broker
        index = broker.coordinators.transactions.partition_for(ID)
        assert index != 0
        producer_id = await begin(node)
        node.change_leader(TOPIC, 1, leader=NODE_ID + 1, leader_epoch=1)
        assert await end(node, producer_id, commit=True) is ErrorCode.NONE
        known = broker.image
        broker.metadata.image = replace(known, topics=known.topics.without([STATE_TOPIC]))
        broker.coordinators.transactions.resign(index)
        broker.coordinators.transactions.lead(node.partition(STATE_TOPIC, index))
        await trio.sleep(5)
        assert (await init(node)).error_code == ErrorCode.NOT_COORDINATOR
        broker.metadata.image = known
        node.change_leader(TOPIC, 1, leader=NODE_ID, leader_epoch=2)
        await trio.sleep(60)
        assert state(node) == "CompleteCommit"
        assert open_partitions(node) == []


async def test_resigned_coordinator_answers_not_coordinator(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        node.change_leader(STATE_TOPIC, 0, leader=NODE_ID + 1, leader_epoch=1)
        assert await end(node, producer_id, commit=True) is ErrorCode.NOT_COORDINATOR
        assert (await init(node)).error_code == ErrorCode.NOT_COORDINATOR
        markers = Markers(ID, producer_id, 0, True, {TOPIC: frozenset({0})}, 1)
        write = node.broker.coordinators.transactions.writer(markers, lambda *_: None)
        assert write(TOPIC, 0) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


async def test_init_producer_id_waits_for_producer_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(count: int) -> range:
        raise StoreError("the disk is full")

    async with running(tmp_path) as node:
        with monkeypatch.context() as broken:
            broken.setattr(node.store, "allocate_producer_ids", fail)
            assert (await init(node)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await init(node)).error_code == ErrorCode.NONE


async def test_verify_returns_an_error_for_each_partition_outside_the_transaction(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node, 2)
        transactions = node.broker.coordinators.transactions
        asked = {TOPIC: frozenset({0, 1, 2}), "u": frozenset({0})}
        abortable = ErrorCode.TRANSACTION_ABORTABLE
        assert transactions.verify(ID, producer_id, 0, asked) == {
            (TOPIC, 0): ErrorCode.NONE,
            (TOPIC, 1): ErrorCode.NONE,
            (TOPIC, 2): abortable,
            ("u", 0): abortable,
        }
        everywhere = [*((TOPIC, index) for index in range(3)), ("u", 0)]
        for transactional_id, error in (
            ("", ErrorCode.INVALID_REQUEST),
            ("y", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ):
            told = transactions.verify(transactional_id, producer_id, 0, asked)
            assert told == dict.fromkeys(everywhere, error)
        lead_again(node)
        busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        told = transactions.verify(ID, producer_id, 0, asked)
        assert told == dict.fromkeys(everywhere, busy)


async def test_list_transactions_covers_all_partitions(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path, state_partitions=3) as node:
        transactions = node.broker.coordinators.transactions
        ids = [f"id-{number}" for number in range(12)]
        for transactional_id in ids:
            await ask(node, InitProducerIdRequest(transactional_id, 60_000), 5)
        places = {each: transactions.partition_for(each) for each in ids}
        assert set(places.values()) == {0, 1, 2}

        def listed() -> tuple[ErrorCode, set[str]]:
            reply = node.call(ListTransactionsRequest(), 2)
            told = {each.transactional_id for each in reply.transaction_states}
            return ErrorCode(reply.error_code), told

        assert listed() == (ErrorCode.NONE, set(ids))
        lead_again(node, 1)
        assert listed() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, set())
        await trio.testing.wait_all_tasks_blocked()
        assert listed() == (ErrorCode.NONE, set(ids))
        transactions.runtime.shards[1].state = ShardState.FAILED
        assert listed() == (ErrorCode.NONE, {each for each in ids if places[each] != 1})
        transactions.resign(2)
        assert listed() == (ErrorCode.NONE, {each for each in ids if places[each] == 0})
