"""When Produce answers: at once, when all in-sync replicas have the batch, or after its timeout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.metadata.image import PartitionImage
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.context import Context
from kwire.requests.handlers import produce
from tests.requests.handlers.node import Node

NONE, TIMED_OUT = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def lagging(node: Node) -> Node:
    """Topic `t`: two partitions with a second in-sync replica, which fetches on demand."""
    node.create("t", 3)
    for index in range(2):
        node.partition("t", index).follow(PartitionImage(1, 0, 0, (1, 2), (1, 2)))
    return node


def request(*indexes: int, acks: int = -1, timeout_ms: int = 10_000) -> ProduceRequest:
    records = bytes(build([Record(0, 1000, None, b"v")] * 2))
    data = [PartitionProduceData(index, records) for index in indexes]
    return ProduceRequest(None, acks, timeout_ms, [TopicProduceData("t", ZERO_UUID, data)])


def start(node: Node, asked: ProduceRequest) -> Any:  # noqa: ANN401 - a reply or an awaitable
    received = ProduceRequest.decode(bytearray(asked.encode(9)), 9)  # it is stamped in place
    context = Context("PLAINTEXT", "127.0.0.1", "test-1", api_version=9)
    return produce.handle(node.broker, received, context)


def told(reply: ProduceResponse) -> list[tuple[int, ErrorCode]]:
    return [
        (answer.index, ErrorCode(answer.error_code))
        for answer in reply.responses[0].partition_responses
    ]


async def waited(
    node: Node, asked: ProduceRequest, *steps: Callable[[], object]
) -> tuple[list[tuple[int, ErrorCode]], float]:
    """The response and its time in seconds, while `steps` run a second apart."""
    result: list[tuple[ProduceResponse, float]] = []

    async def ask() -> None:
        before = trio.current_time()
        reply = await start(node, asked)
        result.append((reply, round(trio.current_time() - before, 3)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        for step in steps:
            await wait_all_tasks_blocked()
            await trio.sleep(1)
            step()
    [(reply, seconds)] = result
    return told(reply), seconds


async def test_acks_all_answers_when_all_replicas_have_the_batches(
    lagging: Node, autojump_clock: MockClock
) -> None:
    first, second = (lagging.partition("t", index) for index in range(2))
    steps = [
        lambda: first.advance_high_watermark(1, 0),  # half of it
        lambda: second.advance_high_watermark(2, 0),
        lambda: first.advance_high_watermark(2, 0),
    ]
    answer, seconds = await waited(lagging, request(0, 1, 2), *steps)
    assert (answer, seconds) == ([(0, NONE), (1, NONE), (2, NONE)], 3.0)


@pytest.mark.parametrize(
    ("timeout_ms", "seconds"), [(10_000, 10.0), (1500, 1.5), (1, 0.001), (0, 0.0), (-7, 0.0)]
)
async def test_acks_all_reports_partitions_that_time_out(
    lagging: Node, autojump_clock: MockClock, timeout_ms: int, seconds: float
) -> None:
    """The batches are in the log all the same."""
    late = request(0, 2, timeout_ms=timeout_ms)
    assert await waited(lagging, late) == ([(0, TIMED_OUT), (2, NONE)], seconds)
    assert lagging.partition("t").log_end_offset == 2
    assert lagging.broker.hosted.expired.produces == 1  # that of the partition


async def test_acks_all_reports_a_partition_that_moved(
    lagging: Node, autojump_clock: MockClock
) -> None:
    first, second = (lagging.partition("t", index) for index in range(2))
    steps = [lambda: second.stop(MOVED), lambda: first.advance_high_watermark(2, 0)]
    assert await waited(lagging, request(0, 1), *steps) == ([(0, NONE), (1, MOVED)], 2.0)


def test_acks_1_does_not_wait_for_replicas(lagging: Node) -> None:
    assert told(start(lagging, request(0, 1, acks=1))) == [(0, NONE), (1, NONE)]


def test_acks_all_on_a_single_replica_does_not_wait(lagging: Node) -> None:
    assert told(start(lagging, request(2))) == [(2, NONE)]
