"""Repeated ListOffsets requests get the current offset, the same as from the handler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.log import delete_records
from kwire.requests.handlers import list_offsets
from kwire.requests.handlers.list_offsets import EARLIEST, LATEST
from tests.inside import RawClient, running_broker

VERSIONS = range(2, 12)  # the first has no isolation level


@asynccontextmanager
async def broker_with_topic(directory: Path) -> AsyncIterator[Broker]:
    settings = {"transaction.partition.verification.enable": "false"}
    async with running_broker(directory, settings) as broker:
        await create(broker)
        yield broker


async def create(broker: Broker) -> None:
    client = await RawClient.connect(broker)
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    created = await client.ask(request, 7, CreateTopicsResponse)
    assert created.topics[0].error_code == ErrorCode.NONE


def append(broker: Broker, *, transactional: bool = False) -> None:
    """Write one record to partition 0, in a transaction that stays open or in none."""
    record = Record(0, Broker.now_ms(), None, b"value", [])
    batch = build([record], producer_id=7, producer_epoch=0, transactional=True, base_sequence=0)
    if not transactional:
        batch = build([record])
    broker.hosted.led("t", 0).append(bytearray(batch), now_ms=Broker.now_ms())


def question(*partitions: int, timestamp: int = LATEST, **options: int) -> ListOffsetsRequest:
    epoch = options.pop("epoch", -1)
    asked = [ListOffsetsPartition(each, epoch, timestamp) for each in partitions]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)], **options
    )


QUESTIONS = {
    "where it ends": question(0),
    "where it begins": question(0, timestamp=EARLIEST),
    "what is committed": question(0, isolation_level=1),
    "another partition": question(1),
    "both partitions": question(0, 1),
    "in this epoch": question(0, epoch=0),
    "in a later epoch": question(0, epoch=1),
    "the largest timestamp": question(0, timestamp=list_offsets.MAX_TIMESTAMP),
    "no such partition": question(7),
    "the same partition twice": question(0, 0),
    "no such isolation level": question(0, isolation_level=2),
    "nothing": ListOffsetsRequest(replica_id=-1),
}


async def told(
    client: RawClient, request: ListOffsetsRequest, version: int
) -> list[ListOffsetsPartitionResponse]:
    reply = await client.ask(request, version, ListOffsetsResponse)
    return [each for topic in reply.topics for each in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
async def test_shortcut_and_handler_give_equal_responses(tmp_path: Path, version: int) -> None:
    async with broker_with_topic(tmp_path) as broker:
        again = await RawClient.connect(broker)
        partition = broker.hosted.led("t", 0)
        for turn in range(4):
            for label, request in QUESTIONS.items():
                once = await told(await RawClient.connect(broker), request, version)
                for _ in range(2):
                    assert await told(again, request, version) == once, label
            append(broker, transactional=turn == 1)
            if turn == 2:
                delete_records(partition.log, 1, partition.high_watermark)


async def test_repeated_requests_in_one_packet_each_get_a_response(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as broker:
        append(broker)
        client = await RawClient.connect(broker)
        begins, ends = question(0, timestamp=EARLIEST), question(0)
        for _ in range(3):  # until both are known
            await told(client, begins, 7)
            await told(client, ends, 7)
        asked = [ends, begins, ends, ends, begins]
        frames = [client.frame(each, 7) for each in asked]
        await client.stream.send_all(b"".join(frames))
        for request, frame in zip(asked, frames, strict=True):
            correlation_id, reply = await client.receive(ListOffsetsResponse, 7)
            assert correlation_id == int.from_bytes(frame[8:12])
            assert reply.topics[0].partitions[0].offset == (0 if request is begins else 1)


@pytest.mark.parametrize("version", [4, 9])
async def test_repeated_request_is_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """From the first version on whose responses have a leader epoch."""
    async with broker_with_topic(tmp_path) as broker:
        client = await RawClient.connect(broker)
        ask_both = [question(0, timestamp=EARLIEST), question(0)]
        for request in ask_both:
            await told(client, request, version)
        calls = 0
        thorough = list_offsets._answer

        def counted(*args: object) -> ListOffsetsPartitionResponse:
            nonlocal calls
            calls += 1
            return thorough(*args)  # type: ignore[arg-type]  # passed on as they came

        monkeypatch.setattr(list_offsets, "_answer", counted)
        for end in range(3):
            for request, offset in zip(ask_both, (0, end), strict=True):
                assert [each.offset for each in await told(client, request, version)] == [offset]
            append(broker)
        assert calls == 0


async def test_mixed_requests_in_one_packet_are_answered_in_order(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as broker:
        append(broker)
        client = await RawClient.connect(broker)
        requests = [question(0, timestamp=EARLIEST), question(0), question(1)] * 5
        await client.stream.send_all(b"".join(client.frame(each, 9) for each in requests))
        got = [await client.receive(ListOffsetsResponse, 9) for _ in requests]
        assert [correlation_id for correlation_id, _ in got] == list(range(1, 16))
        assert [each.topics[0].partitions[0].offset for _, each in got] == [0, 1, 0] * 5


async def test_shortcut_uses_the_new_topic_after_a_deletion(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as broker:
        client, admin = await RawClient.connect(broker), await RawClient.connect(broker)

        async def end() -> tuple[int, int]:
            (answer,) = await told(client, question(0), 9)
            return answer.error_code, answer.offset

        append(broker)
        assert [await end() for _ in range(3)] == [(0, 1)] * 3
        deletion = DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000)
        await admin.ask(deletion, 5, DeleteTopicsResponse)
        assert await end() == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        await create(broker)
        assert [await end() for _ in range(3)] == [(0, 0)] * 3


async def test_more_requests_than_are_remembered_are_all_answered(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as broker:
        client = await RawClient.connect(broker)
        append(broker)
        for _ in range(2):
            for timestamp, offset in ((EARLIEST, 0), (LATEST, 1)):
                for timeout_ms in range(5):
                    request = question(0, timestamp=timestamp, timeout_ms=timeout_ms)
                    (answer,) = await told(client, request, 10)
                    assert answer.offset == offset
