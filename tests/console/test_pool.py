"""Calls of the blocking client in threads."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from kwire.client.cluster import Cluster
from kwire.client.errors import Misuse, RequestTimedOut
from kwire.console.pool import CACHED_MAX, ClusterPool
from kwire.console.precedence import QUIET_S, PagesFirst


def pool(threads: int = 4, now: list[float] | None = None) -> ClusterPool:
    """A pool of Clusters that are never connected."""
    time_s = now or [0.0]
    return ClusterPool(lambda: Cluster("127.0.0.1:1"), threads=threads, clock=lambda: time_s[0])


async def test_cluster_is_used_again_after_a_call_and_after_its_own_error() -> None:
    own = pool()
    first = await own.ask(lambda cluster: cluster)

    def fail(cluster: Cluster) -> None:
        assert cluster is first
        raise Misuse("no")

    with pytest.raises(Misuse):
        await own.ask(fail)
    assert await own.ask(lambda cluster: cluster) is first


async def test_cluster_is_dropped_after_a_defect() -> None:
    own = pool()
    first = await own.ask(lambda cluster: cluster)

    def fail(_: Cluster) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await own.ask(fail)
    assert await own.ask(lambda cluster: cluster) is not first


async def test_calls_at_the_same_time_have_clusters_of_their_own() -> None:
    own = pool()
    together = threading.Barrier(3)
    used: list[Cluster] = []

    def call(cluster: Cluster) -> None:
        together.wait(60)
        used.append(cluster)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(own.ask, call)
    assert len({id(cluster) for cluster in used}) == 3


async def test_call_that_takes_too_long_times_out_and_its_thread_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    own, release, ended = pool(), threading.Event(), threading.Event()

    def call(_: Cluster) -> None:
        release.wait(60)
        ended.set()

    with pytest.raises(RequestTimedOut, match="15 s"):
        await own.ask(call)
    release.set()
    assert ended.wait(60)


async def test_result_is_given_again_while_it_is_fresh() -> None:
    now, calls = [0.0], []
    own = pool(now=now)

    def call(_: Cluster, name: str) -> int:
        calls.append(name)
        return len(calls)

    assert [await own.cached(call, name) for name in "aaba"] == [1, 1, 2, 1]
    now[0] = 1.5
    assert await own.cached(call, "a") == 1
    now[0] = 1.6
    assert await own.cached(call, "a") == 3
    own.forget_results()
    assert await own.cached(call, "a") == 4


async def test_pages_at_the_same_time_share_one_call() -> None:
    own, calls, waiting = pool(), [], threading.Event()
    found: list[int] = []

    def call(_: Cluster) -> int:
        calls.append(1)
        waiting.wait(60)
        return len(calls)

    async def page() -> None:
        found.append(await own.cached(call))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(page)
        await trio.testing.wait_all_tasks_blocked(0.01)
        waiting.set()
    assert found == [1] * 5


async def test_error_is_not_kept_and_the_next_page_asks_again() -> None:
    own, calls = pool(), []

    def call(_: Cluster) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise Misuse("no")
        return len(calls)

    with pytest.raises(Misuse):
        await own.cached(call)
    assert await own.cached(call) == 2


async def test_number_of_kept_results_is_limited() -> None:
    own = pool()

    def same(_: Cluster, given: int) -> int:
        return given

    for number in range(CACHED_MAX + 20):
        await own.cached(same, number)
    assert len(own._kept) == CACHED_MAX


async def test_costly_result_is_given_while_a_new_one_is_on_its_way() -> None:
    now = [0.0]
    own, calls, renewed = pool(now=now), [], threading.Event()

    def call(_: Cluster) -> int:
        calls.append(1)
        now[0] += 1.0
        if len(calls) == 2:
            renewed.set()
        return len(calls)

    async with trio.open_nursery() as nursery:
        own.nursery = nursery
        assert await own.cached(call) == 1
        now[0] = 11.0
        assert await own.cached(call) == 1, "fresh for ten times its cost"
        now[0] = 20.0
        assert await own.cached(call) == 1, "old, but usable"
    assert renewed.is_set()
    assert await own.cached(call) == 2
    own.nursery = None
    now[0] += 11.0
    assert await own.cached(call) == 3, "nobody renews it"


async def test_large_result_is_given_while_a_new_one_is_on_its_way_even_if_it_cost_nothing() -> (
    None
):
    now = [0.0]
    own, sizes = pool(now=now), [3, 4, 1, 2, 0]

    def call(_: Cluster) -> int:
        return sizes.pop(0)

    async def size() -> int:
        return await own.cached(call, is_large=lambda size: size >= 3)

    found = []
    for _ in range(5):
        async with trio.open_nursery() as nursery:
            own.nursery = nursery
            found.append(await size())
        now[0] += 2.0
    assert found == [3, 3, 4, 2, 0], "small ones are asked for again before they are given"


async def test_renewal_waits_for_the_pages_that_are_being_made() -> None:
    now = [0.0]
    own, calls = pool(now=now), []
    waits: list[float] = []

    def call(_: Cluster) -> int:
        calls.append(len(waits))
        return len(calls)

    await own.cached(call, is_large=lambda _: True)
    now[0] = 2.0

    def pause(pause_s: float) -> None:
        waits.append(pause_s)
        now[0] += pause_s

    own.pages = PagesFirst(clock=lambda: now[0], sleep=pause)
    with own.pages.page():
        pass
    async with trio.open_nursery() as nursery:
        own.nursery = nursery
        assert await own.cached(call, is_large=lambda _: True) == 1
    assert waits == [pytest.approx(QUIET_S)]
    assert calls == [0, 1]


async def test_result_that_cannot_be_renewed_is_asked_for_by_the_next_page() -> None:
    now = [0.0]
    own, calls = pool(now=now), []

    def call(_: Cluster) -> int:
        calls.append(1)
        now[0] += 1.0
        if len(calls) == 2:
            raise Misuse("no")
        return len(calls)

    async with trio.open_nursery() as nursery:
        own.nursery = nursery
        await own.cached(call)
        now[0] = 20.0
        assert await own.cached(call) == 1
    assert await own.cached(call) == 3
