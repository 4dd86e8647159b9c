"""Records that wait for the next append to their partition: those that complete a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.broker import Broker
from kwire.broker.timers import Timers
from kwire.codecs.batches import iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.deferring import (
    DEFERRED_BYTES_MAX,
    DEFERRED_MS,
    RETRY_MS,
    Deferrals,
    DeferredRecords,
    Pair,
    size_of,
)
from kwire.log import LogError
from kwire.storage.partitions.partition import Partition
from kwire.txn.records import decode
from tests.coordinators.runtime.test_transaction_coordinator import (
    SMALL,
    START_MS,
    STATE_TOPIC,
    TOPIC,
    begin,
    end,
    init,
    lead_again,
    open_partitions,
    running,
    state,
    take_up_again,
)
from tests.inside import running_broker
from tests.requests.handlers.node import Node
from tests.requests.shortcuts.test_repeated_produce import create
from tests.requests.shortcuts.test_repeated_transactions import Writer


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's clock goes with that of the loop, which jumps."""
    now_ms = staticmethod(lambda: START_MS + int(trio.current_time() * 1000))
    monkeypatch.setattr(Broker, "now_ms", now_ms)


def labels(partition: Partition) -> list[list[str]]:
    """The state in each record of a partition of `__transaction_state`, batch by batch."""
    end_offset = partition.log_end_offset
    region = partition.read(0, 1 << 20, max_offset=end_offset, min_one_batch=True)
    assert region is not None
    data = region.read()
    written = []
    for position, _ in iter_batches(data):
        decoded = [decode(record.key, record.value) for record in records(data, position)]
        states = [each.transaction for each in decoded if each is not None]
        written.append([each.state.label for each in states if each is not None])
    return written


def ends_of(node: Node) -> list[int]:
    return [node.partition(TOPIC, index).log_end_offset for index in range(SMALL)]


async def test_completion_is_appended_with_the_next_record(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        producer_id = await begin(node)
        await end(node, producer_id, commit=True)
        assert state(node) == "CompleteCommit"
        log = node.partition(STATE_TOPIC)
        assert labels(log) == [["Empty"], ["Ongoing"], ["PrepareCommit"]]
        await init(node)
        assert labels(log)[3:] == [["CompleteCommit", "Empty"]]
        assert state(node) == "Empty"


async def test_completion_is_appended_soon_if_no_record_follows(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as node:
        await end(node, await begin(node), commit=False)
        await trio.sleep(2 * DEFERRED_MS / 1000 + 0.01)
        assert labels(node.partition(STATE_TOPIC))[2:] == [["PrepareAbort"], ["CompleteAbort"]]
        await trio.sleep(1)
        assert len(labels(node.partition(STATE_TOPIC))) == 4


@pytest.mark.parametrize("commit", [True, False])
async def test_transaction_completes_after_a_kill_before_its_completion_is_appended(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, commit: bool
) -> None:
    """The markers are written a second time, and the producer goes on."""
    async with running(tmp_path) as node:
        await end(node, await begin(node), commit=commit)
        ends = ends_of(node)
        await take_up_again(node)
        await trio.sleep(1)
        assert state(node) == ("CompleteCommit" if commit else "CompleteAbort")
        assert ends_of(node) == [offset + 1 for offset in ends]
        assert open_partitions(node) == []
        producer_id = await begin(node)
        assert await end(node, producer_id, commit=True, epoch=1) is ErrorCode.NONE
        assert open_partitions(node) == []


async def test_completion_is_written_when_deferred_records_are_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await end(node, await begin(node), commit=True)
        node.broker.coordinators.write_deferred()
        assert labels(node.partition(STATE_TOPIC))[2:] == [["PrepareCommit"], ["CompleteCommit"]]
        ends = ends_of(node)
        lead_again(node)
        await trio.testing.wait_all_tasks_blocked()
        assert state(node) == "CompleteCommit"
        assert ends_of(node) == ends, "no marker is written again"


async def test_completion_gets_a_batch_of_its_own_if_both_do_not_fit_into_one(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node:
        await end(node, await begin(node), commit=True)
        partition = node.partition(STATE_TOPIC)
        config = partition.log.config
        partition.log.update_config(replace(config, max_message_bytes=290))
        assert (await init(node)).error_code == ErrorCode.NONE
        assert labels(partition)[3:] == [["CompleteCommit"], ["Empty"]]


async def test_clean_stop_appends_completions(tmp_path: Path) -> None:
    """The next start writes no markers."""
    async with running_broker(tmp_path) as broker:
        writer = await Writer.start(broker, await create(broker, "repeated"))
        await writer.write(0)
        await writer.end()
        end_offset = broker.hosted.led("repeated", 0).log_end_offset
    async with running_broker(tmp_path) as broker:
        transactions = broker.coordinators.transactions
        (shard,) = (each for each in transactions.runtime.active() if each.machine.transactions)
        assert [list(each) for each in labels(shard.partition)][-1] == ["CompleteCommit"]
        assert broker.hosted.led("repeated", 0).log_end_offset == end_offset == 2


class FakeShard:
    """A shard whose disk may fail; `written` has the batches."""

    def __init__(self) -> None:
        self.deferred = DeferredRecords()
        self.written: list[Sequence[Pair]] = []
        self.fails = False

    def write_deferred(self, now_ms: int) -> None:
        if self.fails:
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR)
        self.written.append(self.deferred.pairs)
        self.deferred.clear()


async def test_deferred_records_that_cannot_be_appended_are_tried_again(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    timers, shard = Timers(), FakeShard()
    deferrals = Deferrals(timers, lambda: START_MS, is_used=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        shard.fails = True
        assert deferrals.defer(shard, [(b"key", b"value")])
        await trio.sleep(2 * DEFERRED_MS / 1000 + 0.01)
        assert len(caplog.records) == 1
        shard.fails = False
        await trio.sleep(RETRY_MS / 1000 + 0.01)
        assert shard.written == [[(b"key", b"value")]]
        await trio.sleep(10)
        assert len(caplog.records) == len(shard.written) == 1
        nursery.cancel_scope.cancel()


async def test_records_beyond_the_limit_are_not_deferred() -> None:
    shard, timers = FakeShard(), Timers()
    deferrals = Deferrals(timers, lambda: START_MS, is_used=True)
    half = (b"k", bytes(DEFERRED_BYTES_MAX // 2 - size_of([(b"k", None)])))
    assert deferrals.defer(shard, [half])
    assert deferrals.defer(shard, [half])
    assert not deferrals.defer(shard, [(b"k", None)])
    assert shard.deferred.pairs == [half, half]
    assert not Deferrals(timers, lambda: START_MS, is_used=False).defer(FakeShard(), [half])
