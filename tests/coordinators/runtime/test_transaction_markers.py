"""The sender of markers: it writes all markers in slices, and retries the failed ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from kwire.broker.shared_work import SharedWork
from kwire.broker.timers import Timers
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.markers import AT_ONCE, RETRY_MS, MarkerSender, Settle, Write
from kwire.txn.effects import Markers

Place = tuple[str, int]


def markers(transactional_id: str, count: int, *, epoch: int = 1, topic: str = "t") -> Markers:
    return Markers(transactional_id, 7, epoch, True, {topic: frozenset(range(count))}, 2)


class Cluster:
    """The partitions of a cluster, and what writing to them comes to."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.written: list[tuple[str, Place]] = []
        self.completed: list[str] = []
        self.errors: dict[Place, ErrorCode] = {}
        self.deleted: set[str] = set()
        self.held: list[Callable[[ErrorCode], None]] | None = None
        self.may_complete = True
        self.lost = 0
        self.work = SharedWork()
        self.together: list[tuple[Place, int]] = []
        self.sender = MarkerSender(self, self.complete, self.lose, self.timers, self.work)

    def exists(self, topic: str, partition: int) -> bool:
        return topic not in self.deleted

    def write(self, topic: str, partition: int, writers: Sequence[Write]) -> list[ErrorCode | None]:
        self.together.append(((topic, partition), len(writers)))
        return [writer(topic, partition) for writer in writers]

    def writer(self, markers: Markers, settle: Settle) -> Write:
        def write(topic: str, partition: int) -> ErrorCode | None:
            error = self.errors.get((topic, partition), ErrorCode.NONE)
            if error is ErrorCode.NONE:
                self.written.append((markers.transactional_id, (topic, partition)))
            if self.held is None:
                return error
            self.held.append(partial(settle, topic, partition))
            return None

        return write

    def complete(self, markers: Markers) -> bool:
        if self.may_complete:
            self.completed.append(markers.transactional_id)
        return self.may_complete

    def lose(self) -> None:
        self.lost += 1


@asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.timers.run)
        await trio.testing.wait_all_tasks_blocked()
        yield cluster
        nursery.cancel_scope.cancel()


async def a_while() -> None:
    """Long enough for everything that will happen, on a clock that jumps."""
    await trio.sleep(20 * RETRY_MS / 1000)


@pytest.mark.parametrize("count", [0, 1, AT_ONCE])
async def test_few_markers_are_written_before_the_call_returns(count: int) -> None:
    async with running() as cluster:
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("x", count))
        assert len(cluster.written) == count
        assert cluster.completed == ["x"]


async def test_requests_that_are_served_together_write_to_each_partition_once() -> None:
    async with running() as cluster:
        cluster.sender.at_once = True
        cluster.errors = {("t", 1): ErrorCode.INVALID_PRODUCER_EPOCH}
        cluster.work.begin()
        for number in range(3):
            cluster.sender.resolve(markers(f"x{number}", 1 + number))
        assert cluster.written == []
        cluster.sender.drop(lambda transactional_id: transactional_id == "x0")
        cluster.work.finish()
        assert cluster.together == [(("t", 0), 2), (("t", 1), 2), (("t", 2), 1)]
        assert cluster.completed == ["x1", "x2"]


async def test_failed_marker_of_one_request_does_not_hold_up_the_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as cluster:
        cluster.sender.at_once = True
        cluster.errors = {("u", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}
        cluster.work.begin()
        cluster.sender.resolve(markers("x", 1, topic="u"))
        cluster.sender.resolve(markers("y", 1))
        cluster.work.finish()
        assert cluster.completed == ["y"]
        cluster.errors.clear()
        await a_while()
        assert cluster.completed == ["y", "x"]


async def test_many_markers_are_written_in_slices(autojump_clock: trio.testing.MockClock) -> None:
    async with running() as cluster:
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("x", AT_ONCE + 1))
        assert cluster.written == []
        await a_while()
        assert cluster.completed == ["x"]


async def test_all_markers_are_queued_after_a_restart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """There may be thousands, and requests come between."""
    async with running() as cluster:
        for number in range(3):
            cluster.sender.resolve(markers(f"x{number}", 1))
        assert cluster.written == []
        await trio.testing.wait_all_tasks_blocked()
        assert cluster.completed == ["x0", "x1", "x2"]


async def test_pause_between_retries_doubles_up_to_the_maximum(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A moment later at first, for an election; each second in the end."""
    tried: list[int] = []
    async with running() as cluster:
        begun = trio.current_time()
        cluster.errors = Failing(lambda: tried.append(round(1000 * (trio.current_time() - begun))))
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("x", 1))
        await trio.sleep(4.8)
    assert tried == [0, 100, 300, 700, 1500, 2500, 3500, 4500]


class Failing(dict[Place, ErrorCode]):
    """Partitions that cannot be written, and who is told when that is tried."""

    def __init__(self, tried: Callable[[], None]) -> None:
        super().__init__()
        self._tried = tried

    def get(self, *_: object) -> ErrorCode:
        self._tried()
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_markers_of_the_next_transaction_replace_those_of_the_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The shard hands in only what is current."""
    async with running() as cluster:
        cluster.held = []
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("x", 1, epoch=1))
        cluster.sender.resolve(markers("x", 1, epoch=2))
        first, second = cluster.held
        first(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        assert cluster.completed == []
        second(ErrorCode.NONE)
        assert cluster.completed == ["x"]


async def test_slices_of_two_transactions_alternate(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as cluster:
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("large", 10 * AT_ONCE))
        assert cluster.written == []
        cluster.sender.at_once = False
        cluster.sender.resolve(markers("small", 3))
        await a_while()
        assert len(cluster.completed) == 2
    assert cluster.completed == ["small", "large"]
    assert len(cluster.written) == len(set(cluster.written)) == 10 * AT_ONCE + 3


async def test_failed_partition_is_retried_until_it_is_written(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as cluster:
        cluster.errors = {("t", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}
        cluster.errors["t", 2] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("x", 4))
        await a_while()
        assert sorted(cluster.written) == [("x", ("t", 0)), ("x", ("t", 3))]
        assert cluster.completed == []
        cluster.errors.clear()
        await a_while()
        assert cluster.completed == ["x"]
    assert sorted(cluster.written) == [("x", ("t", index)) for index in range(4)]


async def test_deleted_partition_is_skipped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as cluster:
        cluster.errors = {("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        cluster.sender.resolve(markers("x", 2))
        await a_while()
        assert cluster.completed == []
        cluster.deleted.add("t")
        await a_while()
        assert cluster.completed == ["x"]


async def test_partition_with_a_newer_producer_epoch_does_not_block_others() -> None:
    async with running() as cluster:
        cluster.errors = {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("x", 3))
        assert cluster.completed == ["x"]


async def test_fenced_coordinator_stops_writing_markers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as cluster:
        cluster.errors = {("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
        cluster.sender.resolve(markers("x", 3))
        await a_while()
        assert cluster.completed == []
        cluster.errors.clear()
        cluster.sender.resolve(markers("x", 3))
        await a_while()
        assert cluster.completed == ["x"], "it came back"


async def test_completion_is_retried_until_it_succeeds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as cluster:
        cluster.may_complete = False
        cluster.sender.resolve(markers("x", 3))
        await a_while()
        cluster.may_complete = True
        await a_while()
        assert cluster.completed == ["x"]
    assert len(cluster.written) == 3


async def test_transaction_completes_when_the_last_marker_is_settled() -> None:
    async with running() as cluster:
        cluster.held = []
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("x", 2))
        first, second = cluster.held
        second(ErrorCode.NONE)
        assert cluster.completed == []
        first(ErrorCode.NONE)
        assert cluster.completed == ["x"]


async def test_markers_submitted_twice_are_written_once() -> None:
    async with running() as cluster:
        cluster.held = []
        cluster.sender.at_once = True
        cluster.sender.resolve(markers("x", 1))
        cluster.sender.resolve(markers("x", 1))
        assert len(cluster.held) == 1


async def test_drop_forgets_markers_of_a_resigned_partition(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as cluster:
        cluster.sender.resolve(markers("gone", 10 * AT_ONCE))
        cluster.sender.resolve(markers("stays", 10))
        cluster.sender.drop(lambda transactional_id: transactional_id == "gone")
        await a_while()
        assert cluster.completed == ["stays"]
        await a_while()
    assert {transactional_id for transactional_id, _ in cluster.written} == {"stays"}
    assert cluster.completed == ["stays"]


async def test_lost_markers_are_looked_up_after_a_commit_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running() as cluster:
        cluster.sender.resolve(cluster.sender.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert cluster.lost == 0
        await a_while()
        assert cluster.lost == 1
