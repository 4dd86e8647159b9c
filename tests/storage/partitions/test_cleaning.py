"""When the cleaner gets a turn, how many rounds run at once, and the settings of each.

tests/log/compaction tests the cleaner itself; here a double records its calls.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import trio
import trio.testing

from kwire.log import Log
from kwire.log.compaction.settings import CleanerSettings
from kwire.log.upkeep.job import Job
from kwire.storage.partitions import cleaning
from tests.inside import until
from tests.requests.handlers.node import Node

MakeNode = Callable[..., Node]


@dataclass
class Worker:
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Round:
    """Three jobs, or as many as `hold` releases."""

    hold: threading.Semaphore | None = None
    did: list[str] = field(default_factory=list)

    def jobs(self) -> Iterator[Job]:
        for number in range(3):
            yield Job("clean", partial(self._work, number), lambda _: self.did.append("finish"))

    def _work(self, number: int) -> None:
        if self.hold is not None:
            assert self.hold.acquire(timeout=60)
        self.did.append(f"run {number}")


@dataclass
class Cleaner:
    """Hands out these rounds, and records when and with which settings."""

    rounds: list[Round] = field(default_factory=list)
    asked_at: list[float] = field(default_factory=list)
    settings: list[CleanerSettings] = field(default_factory=list)
    done: list[Round] = field(default_factory=list)
    done_with: list[CleanerSettings] = field(default_factory=list)
    idle: list[Worker] = field(default_factory=list)
    high_watermark: int | None = None
    log: Log | None = None

    def grab(
        self, now_ms: int, settings: CleanerSettings, high_watermark_of: Callable[[Log], int]
    ) -> Round | None:
        assert now_ms > 1_700_000_000_000, "wall clock"
        self.asked_at.append(round(trio.current_time(), 3))
        self.settings.append(settings)
        if self.log is not None:
            self.high_watermark = high_watermark_of(self.log)
        return self.rounds.pop(0) if self.rounds else None

    def finished(self, done: Round, now_ms: int, settings: CleanerSettings) -> None:
        assert now_ms > 1_700_000_000_000, "wall clock"
        self.done.append(done)
        self.done_with.append(settings)

    def take_idle(self, now_ms: int) -> list[Worker]:
        assert now_ms > 1_700_000_000_000, "wall clock"
        taken, self.idle = self.idle, []
        return taken

    def stop(self) -> None: ...


def with_cleaner(node: Node, cleaner: Cleaner) -> None:
    node.logs.__dict__["cleaner"] = cleaner


@asynccontextmanager
async def cleaning_of(node: Node) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            cleaning.run, node.broker.settings, node.broker.hosted, node.broker.now_ms
        )
        yield
        nursery.cancel_scope.cancel()


async def test_cleaner_is_not_created_without_a_compacted_topic(
    make_node: MakeNode, autojump_clock: trio.testing.MockClock
) -> None:
    node = make_node({"log.cleaner.backoff.ms": "500"})
    node.create("plain")
    async with cleaning_of(node):
        await trio.sleep(10)
    assert "cleaner" not in node.logs.__dict__


async def test_cleaner_checks_at_each_backoff_with_current_settings(
    make_node: MakeNode, autojump_clock: trio.testing.MockClock
) -> None:
    node = make_node({"log.cleaner.backoff.ms": "500", "log.cleaner.io.buffer.size": "100000"})
    node.create("plain")
    node.create("t", cleanup_policy="compact")
    node.append("t", key=b"k")
    cleaner = Cleaner(log=node.partition("t").log)
    with_cleaner(node, cleaner)
    start = trio.current_time()
    async with cleaning_of(node):
        await trio.sleep(1.2)
        cleaner.idle.append(worker := Worker())
        await trio.sleep(0.5)
    assert [round(at - start, 1) for at in cleaner.asked_at] == [0, 0.5, 1.0, 1.5]
    assert worker.stopped
    settings = cleaner.settings[0]
    assert (settings.log_cleaner_backoff_ms, settings.log_cleaner_io_buffer_size) == (500, 100_000)
    assert cleaner.high_watermark == 5


async def test_cleaner_starts_the_next_round_at_once(make_node: MakeNode) -> None:
    node = make_node({"log.cleaner.threads": "1"})
    node.create("t", cleanup_policy="compact")
    with_cleaner(node, cleaner := Cleaner([Round() for _ in range(4)]))
    rounds = cleaner.rounds.copy()
    async with cleaning_of(node):
        await until(lambda: len(cleaner.done) == 4)
    assert cleaner.done == rounds


async def test_cleaner_does_nothing_without_log_cleaner_enable(
    make_node: MakeNode, autojump_clock: trio.testing.MockClock
) -> None:
    node = make_node({"log.cleaner.enable": "false"})
    node.create("t", cleanup_policy="compact")
    with_cleaner(node, cleaner := Cleaner([Round()]))
    async with cleaning_of(node):
        await trio.sleep(60)
    assert cleaner.asked_at == []


async def test_cleaner_backoff_of_0_is_not_a_busy_loop(
    make_node: MakeNode, autojump_clock: trio.testing.MockClock
) -> None:
    node = make_node({"log.cleaner.backoff.ms": "0"})
    node.create("t", cleanup_policy="compact")
    with_cleaner(node, cleaner := Cleaner())
    start = trio.current_time()
    async with cleaning_of(node):
        await trio.sleep(0.35)
    assert [round(at - start, 1) for at in cleaner.asked_at] == [0, 0.1, 0.2, 0.3]


async def test_cleaner_runs_each_job_in_a_thread_and_finishes_it_on_the_loop(
    make_node: MakeNode,
) -> None:
    node = make_node()
    node.create("t", cleanup_policy="compact")
    with_cleaner(node, cleaner := Cleaner([only := Round()]))
    with trio.fail_after(240):
        async with cleaning_of(node):
            while not cleaner.done:  # noqa: ASYNC110 - a fact of the stand-in
                await trio.sleep(0.001)
    assert cleaner.done == [only]
    assert only.did == ["run 0", "finish", "run 1", "finish", "run 2", "finish"]
    assert cleaner.done_with[0].log_cleaner_backoff_ms == 15_000


async def test_cleaner_runs_at_most_log_cleaner_threads_rounds(
    make_node: MakeNode,
) -> None:
    """A free thread starts the next round at once, not after the backoff, which is 15 s here."""
    node = make_node({"log.cleaner.threads": "2"})
    node.create("t", cleanup_policy="compact")
    go = threading.Semaphore(0)
    first, others = Round(go), [Round(threading.Semaphore(0)), Round()]
    with_cleaner(node, cleaner := Cleaner([first, *others]))
    with trio.fail_after(240):
        async with cleaning_of(node):
            while len(cleaner.asked_at) < 2:  # noqa: ASYNC110 - a fact of the stand-in
                await trio.sleep(0.001)
            await trio.testing.wait_all_tasks_blocked()
            assert len(cleaner.rounds) == 1, "two at a time"
            for _ in range(3):
                go.release()
            while len(cleaner.done) < 2:  # noqa: ASYNC110 - a fact of the stand-in
                await trio.sleep(0.001)
            assert cleaner.done == [first, others[1]]
            assert cleaner.rounds == []
    # the second is in a thread still, which nobody has waited for: the broker could stop
    assert others[0].hold is not None
    assert others[0].did == []
    for _ in range(3):
        others[0].hold.release()
