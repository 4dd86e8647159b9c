"""Produce to many partitions lets other tasks run, and gives the same responses."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.context import CloseConnection, Context
from kwire.requests.handlers import produce
from tests.requests.handlers.node import Node

PARTITIONS = 6
VERSION = 9


def to_partitions(topic: str, indexes: list[int], acks: int = 1) -> ProduceRequest:
    data = [
        PartitionProduceData(index, build([Record(0, 1000, None, bytes([index]))]))
        for index in indexes
    ]
    return ProduceRequest(None, acks, 1000, [TopicProduceData(topic, ZERO_UUID, data)])


async def send(node: Node, produced: ProduceRequest) -> ProduceResponse:
    received = ProduceRequest.decode(bytearray(produced.encode(VERSION)), VERSION)  # is stamped
    context = Context("PLAINTEXT", "127.0.0.1", "test-1", api_version=VERSION)
    reply = produce.handle(node.broker, received, context)
    assert isinstance(reply, Awaitable)
    answered = await reply
    assert answered is not None
    return answered


@pytest.fixture(params=["PARTITIONS_AT_ONCE", "BYTES_AT_ONCE"])
def small_turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run after two partitions, because of their number or of their bytes."""
    batch_bytes = len(build([Record(0, 1000, None, b"0")]))
    limits = {"PARTITIONS_AT_ONCE": 2, "BYTES_AT_ONCE": batch_bytes + 1}
    monkeypatch.setattr(produce, request.param, limits[request.param])


@pytest.mark.usefixtures("small_turns")
async def test_large_produce_lets_other_tasks_run(node: Node) -> None:
    node.create("t", PARTITIONS)
    ends: list[int] = []

    async def look(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            written = sum(node.partition("t", i).log.log_end_offset for i in range(PARTITIONS))
            ends.append(written)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        await nursery.start(look)
        await send(node, to_partitions("t", list(range(PARTITIONS))))
        nursery.cancel_scope.cancel()
    assert {2, 4} & set(ends)  # which of two that are ready goes first is not said
    assert set(ends) <= {0, 2, 4, 6}


@pytest.mark.usefixtures("small_turns")
async def test_large_produce_gives_the_same_response_as_small_ones(node: Node) -> None:
    node.create("t", PARTITIONS)
    reply = await send(node, to_partitions("t", [5, 9, 0, 1, 0], acks=-1))
    (topic,) = reply.responses
    told = [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses]
    unknown = (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert told == [(5, 0, 0), unknown, (0, 0, 0), (1, 0, 0)]


@pytest.mark.usefixtures("small_turns")
async def test_large_produce_with_acks_0_closes_the_connection_on_failure(node: Node) -> None:
    node.create("t", PARTITIONS)
    with pytest.raises(CloseConnection):
        await send(node, to_partitions("t", [0, 1, 9], acks=0))
    assert node.partition("t", 1).log.log_end_offset == 1
