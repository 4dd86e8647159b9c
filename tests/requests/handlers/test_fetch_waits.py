"""When a Fetch waits and what ends its wait, as seen at Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.codecs.batches import ControlType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.primitives import records_size
from tests.requests.handlers.node import Node

BATCH = 146


def fetch(
    *partitions: tuple[int, int] | tuple[int, int, int],
    topics: tuple[str, ...] = ("t",),
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 1000,
    isolation_level: int = 0,
) -> FetchRequest:
    """A Fetch request; `partitions` are (index, offset, max_bytes)."""
    asked = [
        FetchPartition(each[0], fetch_offset=each[1], partition_max_bytes=(*each, 1 << 20)[2])
        for each in partitions
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=name, partitions=asked) for name in topics],
    )


def told(response: FetchResponse) -> list[tuple[int, int, int]]:
    """(partition, error, bytes of records)."""
    return [
        (data.partition_index, data.error_code, records_size(data.records or b""))
        for topic in response.responses
        for data in topic.partitions
    ]


@pytest.fixture
def t(node: Node) -> Node:
    """Topic `t`: three empty partitions."""
    node.create("t", 3)
    return node


@pytest.mark.parametrize(
    ("min_bytes", "max_wait_ms"), [(0, 1000), (-1, 1000), (1, 0), (1, -1), (-(2**31), 2**31 - 1)]
)
def test_fetch_with_max_wait_0_does_not_wait(t: Node, min_bytes: int, max_wait_ms: int) -> None:
    reply = t.call(fetch((0, 0), min_bytes=min_bytes, max_wait_ms=max_wait_ms), 12)
    assert told(reply) == [(0, 0, 0)]


@pytest.mark.parametrize("partitions", [(), ((9, 0),)])
def test_fetch_without_existing_partitions_does_not_wait(
    t: Node, partitions: tuple[tuple[int, int], ...]
) -> None:
    assert len(told(t.call(fetch(*partitions), 12))) == len(partitions)


async def test_fetch_wait_ends_after_max_wait_with_the_available_records(
    t: Node, autojump_clock: MockClock
) -> None:
    t.append("t")
    reply, seconds = await t.wait_for(fetch((0, 0), (1, 0), min_bytes=10_000), 12)
    assert (told(reply), seconds) == ([(0, 0, BATCH), (1, 0, 0)], 1.0)


async def test_unknown_partition_does_not_end_the_fetch_wait(
    t: Node, autojump_clock: MockClock
) -> None:
    reply, seconds = await t.wait_for(fetch((0, 0), topics=("nope", "t")), 12)
    assert [topic.topic for topic in reply.responses] == ["t", "nope"]
    assert (told(reply), seconds) == ([(0, 0, 0), (0, 3, 0)], 1.0)


def test_error_of_a_partition_ends_the_fetch_wait(t: Node) -> None:
    reply = t.call(fetch((0, 0), (1, 99)), 12)
    assert told(reply) == [(0, 0, 0), (1, ErrorCode.OFFSET_OUT_OF_RANGE, 0)]


async def appended_every_100_ms(node: Node, *appends: Callable[[], object]) -> None:
    for append in appends:
        await trio.sleep(0.1)
        append()


async def wait_while(
    node: Node, request: FetchRequest, *appends: Callable[[], object]
) -> tuple[FetchResponse, float]:
    """The response and its time in seconds, while `appends` run 100 ms apart."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(appended_every_100_ms, node, *appends)
        result: tuple[FetchResponse, float] = await node.wait_for(request, 12)
        nursery.cancel_scope.cancel()
    assert all(not each.fetch_waiters for each in node.broker.hosted.by_topic["t"].values())
    return result


async def test_records_in_any_partition_end_the_fetch_wait(
    t: Node, autojump_clock: MockClock
) -> None:
    reply, seconds = await wait_while(t, fetch((0, 0), (1, 0), (2, 0)), lambda: t.append("t", 1))
    assert (told(reply), seconds) == ([(0, 0, 0), (1, 0, BATCH), (2, 0, 0)], 0.1)


async def test_fetch_waits_until_min_bytes_are_available(
    t: Node, autojump_clock: MockClock
) -> None:
    appends = [lambda: t.append("t", 1), lambda: t.append("t", 2), lambda: t.append("t", 1)]
    request = fetch((0, 0), (1, 0), (2, 0), min_bytes=2 * BATCH + 1)
    reply, seconds = await wait_while(t, request, *appends)
    assert (told(reply), seconds) == ([(0, 0, 0), (1, 0, 2 * BATCH), (2, 0, BATCH)], 0.3)


async def test_records_from_before_the_fetch_count_towards_min_bytes(
    t: Node, autojump_clock: MockClock
) -> None:
    t.append("t")
    request = fetch((0, 0), min_bytes=2 * BATCH)
    reply, seconds = await wait_while(t, request, lambda: t.append("t"))
    assert (told(reply), seconds) == ([(0, 0, 2 * BATCH)], 0.1)


async def test_partition_counts_towards_min_bytes_up_to_its_max_bytes(
    t: Node, autojump_clock: MockClock
) -> None:
    request = fetch((0, 0, 100), min_bytes=200)
    reply, seconds = await wait_while(t, request, *[lambda: t.append("t")] * 3)
    assert (told(reply), seconds) == ([(0, 0, BATCH)], 1.0)


async def test_min_bytes_is_reached_by_the_sum_of_partition_limits(
    t: Node, autojump_clock: MockClock
) -> None:
    for index in range(3):
        t.append("t", index)
    each_100 = [(0, 0, 100), (1, 0, 100), (2, 0, 100)]
    at_once = told(t.call(fetch(*each_100, min_bytes=300), 12))
    assert at_once == [(0, 0, BATCH), (1, 0, 0), (2, 0, 0)]
    _, seconds = await t.wait_for(fetch(*each_100, min_bytes=301), 12)
    assert seconds == 1.0


def test_records_held_back_by_a_limit_count_towards_min_bytes(t: Node) -> None:
    """As in Apache Kafka a batch that is larger than its partition's limit counts as the limit."""
    for index in range(3):
        t.append("t", index)
    partitions = ((0, 0), (1, 0, 100), (2, 0))
    reply = t.call(fetch(*partitions, min_bytes=2 * BATCH + 100), 12)
    assert told(reply) == [(0, 0, BATCH), (1, 0, 0), (2, 0, BATCH)]


def test_min_bytes_above_max_bytes_counts_as_max_bytes(t: Node) -> None:
    for _ in range(3):
        t.append("t", 0)
        t.append("t", 1)
    assert told(t.call(fetch((0, 0), min_bytes=9999, max_bytes=200), 12)) == [(0, 0, 200)]
    both = fetch((0, 0), (1, 0), min_bytes=500, max_bytes=500)
    assert told(t.call(both, 12)) == [(0, 0, 438), (1, 0, 0)]


def test_fetch_does_not_wait_if_its_records_end_in_an_older_segment(t: Node) -> None:
    t.shrink_segments("t", 2 * BATCH)
    for _ in range(4):
        t.append("t")
    assert told(t.call(fetch((0, 0), min_bytes=9999), 12)) == [(0, 0, 2 * BATCH)]


async def test_fetch_waits_if_its_records_end_in_the_newest_segment(
    t: Node, autojump_clock: MockClock
) -> None:
    t.shrink_segments("t", 2 * BATCH)
    for _ in range(4):
        t.append("t")
    reply, seconds = await t.wait_for(fetch((0, 10), min_bytes=9999), 12)
    assert (told(reply), seconds) == ([(0, 0, 2 * BATCH)], 1.0)


async def test_read_committed_fetch_waits_for_the_end_of_a_transaction(
    t: Node, autojump_clock: MockClock
) -> None:
    """The newer segment has records, but not below the last stable offset."""
    t.shrink_segments("t", 2 * BATCH)
    t.append("t")
    t.append("t", producer=(7, 0, 0), transactional=True)
    t.append("t")
    committed, everything = (fetch((0, 0), min_bytes=9999, isolation_level=i) for i in (1, 0))
    reply, seconds = await t.wait_for(committed, 12)
    assert (told(reply), seconds) == ([(0, 0, BATCH)], 1.0)
    assert told(t.call(everything, 12)) == [(0, 0, 2 * BATCH)]


async def test_transaction_marker_wakes_a_read_committed_fetch(
    t: Node, autojump_clock: MockClock
) -> None:
    """Later the followers fetch the batch, and no more bytes arrive."""
    t.lag("t")
    t.append("t")
    partition = t.partition("t")
    replicated = partial(partition.advance_high_watermark, partition.log_end_offset, 0)
    reply, seconds = await wait_while(t, fetch((0, 0), isolation_level=1), replicated)
    assert (told(reply), seconds) == ([(0, 0, BATCH)], 0.1)


async def test_records_of_an_open_transaction_do_not_end_a_read_committed_wait(
    t: Node, autojump_clock: MockClock
) -> None:
    def begin() -> None:
        t.append("t", producer=(7, 0, 0), transactional=True)

    def end() -> None:
        t.end_transaction("t", 0, ControlType.COMMIT, 7)

    request = fetch((0, 0), min_bytes=300, isolation_level=1)
    reply, seconds = await wait_while(t, request, begin, lambda: t.append("t"), end)
    assert (told(reply), seconds) == ([(0, 0, 2 * BATCH + 78)], 0.3)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda node: node.delete("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            lambda node: node.change_leader("t", 1, leader=2, leader_epoch=1),
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
    ],
    ids=["deleted", "moved"],
)
async def test_deleted_partition_ends_the_fetch_wait(
    t: Node, autojump_clock: MockClock, change: Callable[[Node], None], error: ErrorCode
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(appended_every_100_ms, t, lambda: change(t))
        reply, seconds = await t.wait_for(fetch((1, 0)), 12)
    assert (told(reply), seconds) == ([(1, error, 0)], 0.1)
    assert reply.responses[0].partitions[0].aborted_transactions is None


async def test_fetch_sees_records_appended_between_read_and_wait(
    t: Node, autojump_clock: MockClock
) -> None:
    """A connection sends its earlier responses first, and other tasks write in the meantime."""
    waiting = t.start(fetch((0, 0)), 12)
    t.append("t")
    before = trio.current_time()
    assert told(await waiting) == [(0, 0, BATCH)]
    assert trio.current_time() == before


async def test_fetch_sees_a_deletion_between_read_and_wait(
    t: Node, autojump_clock: MockClock
) -> None:
    t.create("u")
    waiting = t.start(fetch((0, 0), topics=("t", "u"), min_bytes=2 * BATCH), 12)
    t.append("t")
    t.delete("u")
    before = trio.current_time()
    reply = await waiting
    assert told(reply) == [(0, 0, BATCH), (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    assert trio.current_time() == before


async def test_cancelled_fetch_leaves_no_waiter(t: Node) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(t.wait_for, fetch((0, 0), (1, 0)), 12)
        await wait_all_tasks_blocked()
        assert t.partition("t").fetch_waiters
        nursery.cancel_scope.cancel()
    assert not t.partition("t").fetch_waiters
    assert not t.partition("t", 1).fetch_waiters


async def test_one_append_wakes_all_waiting_fetches(t: Node, autojump_clock: MockClock) -> None:
    replies: list[tuple[FetchResponse, float]] = []

    async def wait() -> None:
        replies.append(await t.wait_for(fetch((0, 0)), 12))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(wait)
        nursery.start_soon(appended_every_100_ms, t, lambda: t.append("t"))
    assert [(told(reply), seconds) for reply, seconds in replies] == [([(0, 0, BATCH)], 0.1)] * 20
