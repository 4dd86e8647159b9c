"""Repeated Produce requests get the same responses as from the handler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.batches import Compression, Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.log import delete_records
from kwire.requests.shortcuts.produce import RepeatedProduce
from kwire.storage.partitions.partition import Unattended
from tests.inside import RawClient, running_broker

NOW_MS = Broker.now_ms()


def batch(size_bytes: int = 10, sequence: int | None = None, **options: object) -> bytes:
    """A batch of one record; with `sequence` of an idempotent producer."""
    if sequence is not None:
        options |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
    record = Record(0, NOW_MS, b"key", b"v" * size_bytes, [])
    return bytes(build([record], **options))  # type: ignore[arg-type]  # options by name


def spoiled(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


BATCHES = {
    "plain": batch(),
    "again": batch(),
    "two-byte size": batch(300),
    "three-byte size": batch(20_000),
    "short again": batch(),
    "sequence 0": batch(sequence=0),
    "sequence 1": batch(sequence=1),
    "sequence 1 again": batch(sequence=1),
    "sequence 5, a gap": batch(sequence=5),
    "sequence 2": batch(sequence=2),
    "wrong CRC": spoiled(batch(), 70),
    "zstd": batch(compression=Compression.ZSTD),
    "gzip": batch(compression=Compression.GZIP),
    "transactional": batch(sequence=3, transactional=True),
    "control": batch(control=True),
    "two batches": batch() + batch(),
    "half a batch": batch()[:40],
    "nothing": b"",
    "too large": batch(1_100_000),
    "lies about its length": spoiled(batch(), 11),
    "magic 1": batch()[:16] + b"\1" + batch()[17:],
    "from the future": bytes(build([Record(0, NOW_MS + 10**8, None, b"v", [])])),
    "three records": bytes(build([Record(at, NOW_MS, b"k", b"v", []) for at in range(3)])),
    "plain at the end": batch(),
}


@asynccontextmanager
async def broker_with_topics(directory: Path) -> AsyncIterator[tuple[Broker, dict[str, bytes]]]:
    async with running_broker(directory) as broker:
        yield broker, {name: await create(broker, name) for name in ("said-once", "repeated")}


async def create(broker: Broker, name: str) -> bytes:
    client = await RawClient.connect(broker)
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    created = await client.ask(
        CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7, CreateTopicsResponse
    )
    assert created.topics[0].error_code == ErrorCode.NONE
    return created.topics[0].topic_id


def produce(name: str, topic_id: bytes, records: bytes, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


@pytest.mark.slow
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(3, 14))
async def test_shortcut_and_handler_give_equal_responses(
    tmp_path: Path, version: int, acks: int
) -> None:
    async with broker_with_topics(tmp_path) as (broker, ids):
        again = await RawClient.connect(broker)
        for label, records in BATCHES.items():
            answers = []
            for name, client in (
                ("said-once", await RawClient.connect(broker)),
                ("repeated", again),
            ):
                request = produce(name, ids[name], records, acks)
                told = await client.ask(request, version, ProduceResponse)
                assert (told.responses[0].name or name) == name
                answer = told.responses[0].partition_responses[0]
                for error in answer.record_errors:
                    error.batch_index_error_message = None  # tells what time it is
                answers.append(answer)
            assert answers[0] == answers[1], label
        once, repeated = (broker.hosted.led(name, 0).log for name in ("said-once", "repeated"))
        assert once.segments.size_bytes == repeated.segments.size_bytes > 0
        stored = []
        for log in (once, repeated):
            region = log.read(0, 1 << 20, max_offset=100, min_one_batch=True)
            assert region is not None
            stored.append(region.read())
        assert stored[0] == stored[1]


async def test_requests_in_one_packet_are_answered_in_order(tmp_path: Path) -> None:
    """The second time the shortcut answers the requests up to the one that differs."""
    async with broker_with_topics(tmp_path) as (broker, ids):
        client = await RawClient.connect(broker)
        correlation_id = 0
        for turn in range(2):
            requests = [produce("repeated", ids["repeated"], batch()) for _ in range(20)]
            requests[12] = produce("said-once", ids["said-once"], batch())
            await client.stream.send_all(b"".join(client.frame(each, 9) for each in requests))
            offsets = []
            for _ in requests:
                correlation_id += 1
                replied_to, told = await client.receive(ProduceResponse, 9)
                assert replied_to == correlation_id
                offsets.append(told.responses[0].partition_responses[0].base_offset)
            first = 19 * turn
            assert offsets == [*range(first, first + 12), turn, *range(first + 12, first + 19)]


async def test_responses_before_an_invalid_frame_are_sent(tmp_path: Path) -> None:
    async with broker_with_topics(tmp_path) as (broker, ids):
        client = await RawClient.connect(broker)
        frames = [client.frame(produce("repeated", ids["repeated"], batch()), 9) for _ in range(4)]
        await client.stream.send_all(b"".join([*frames, b"\0\0\0\0"]))
        for correlation_id in range(1, 5):
            assert (await client.receive(ProduceResponse, 9))[0] == correlation_id
        assert await client.receive_frame() is None


@pytest.mark.parametrize("version", [9, 13])
async def test_shortcut_uses_the_new_topic_after_a_deletion(tmp_path: Path, version: int) -> None:
    async with broker_with_topics(tmp_path) as (broker, ids):
        client, admin = await RawClient.connect(broker), await RawClient.connect(broker)

        async def write(topic_id: bytes) -> tuple[int, int]:
            request = produce("repeated", topic_id, batch())
            told = await client.ask(request, version, ProduceResponse)
            answer = told.responses[0].partition_responses[0]
            return answer.error_code, answer.base_offset

        assert [await write(ids["repeated"]) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
        deletion = DeleteTopicsRequest(topic_names=["repeated"], timeout_ms=5000)
        await admin.ask(deletion, 5, DeleteTopicsResponse)
        unknown = (
            ErrorCode.UNKNOWN_TOPIC_ID if version == 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert await write(ids["repeated"]) == (unknown, -1)
        new_id = await create(broker, "repeated")
        assert [await write(new_id) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]


async def test_produce_by_shortcut_wakes_a_waiting_fetch(tmp_path: Path) -> None:
    async with broker_with_topics(tmp_path) as (broker, ids):
        client = await RawClient.connect(broker)
        for _ in range(3):
            await client.ask(produce("repeated", ids["repeated"], batch()), 9, ProduceResponse)
        partition = broker.hosted.led("repeated", 0)
        woken = trio.Event()

        class Waiter:
            def data_arrived(self, size_bytes: int) -> None:
                assert size_bytes > 0
                woken.set()

            def partition_changed(self) -> None:
                raise AssertionError

        partition.fetch_waiters.add(Waiter())
        await client.ask(produce("repeated", ids["repeated"], batch()), 9, ProduceResponse)
        assert woken.is_set()


@pytest.mark.parametrize("version", [3, 5, 6, 7, 8, 9, 12, 13])
async def test_shortcut_answers_only_requests_that_differ_in_their_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """No other test would notice: the handler gives the same response, but slower."""
    quick = 0
    answer = RepeatedProduce.answer

    def noted(self: RepeatedProduce, frame: memoryview, broker: Broker) -> object:
        nonlocal quick
        reply = answer(self, frame, broker)
        quick += reply is not None
        return reply

    monkeypatch.setattr(RepeatedProduce, "answer", noted)
    async with broker_with_topics(tmp_path) as (broker, ids):

        async def write(records: bytes) -> int:
            request = produce("repeated", ids["repeated"], records)
            told = await client.ask(request, version, ProduceResponse)
            return told.responses[0].partition_responses[0].error_code

        for learnt_bytes in (20_000, 300, 60, 10):
            client = await RawClient.connect(broker)
            quick = 0
            for expected in (0, 0, 1):
                assert await write(batch(learnt_bytes)) == ErrorCode.NONE
                assert quick == expected
        quick = 0
        plain = [batch(size) for size in (10, 0, 50, 51, 52, 60, 300, 16_200, 16_320, 20_000, 5)]
        for number, records in enumerate([*plain, batch(compression=Compression.GZIP)], 1):
            assert await write(records) == ErrorCode.NONE
            assert quick == number
        before, takes_zstd = quick, version >= 7
        zstd = await write(batch(compression=Compression.ZSTD))
        assert (zstd == ErrorCode.NONE, quick - before) == (takes_zstd, takes_zstd)


@pytest.mark.parametrize("version", [3, 4, 5, 8, 9, 13])
async def test_shortcut_response_has_the_current_log_start_offset(
    tmp_path: Path, version: int
) -> None:
    """Responses have it from version 5 on."""
    async with broker_with_topics(tmp_path) as (broker, ids):
        client = await RawClient.connect(broker)
        log = broker.hosted.led("repeated", 0).log
        told = []
        for _ in range(5):
            request = produce("repeated", ids["repeated"], batch())
            answer = await client.ask(request, version, ProduceResponse)
            told.append(answer.responses[0].partition_responses[0].log_start_offset)
            delete_records(log, log.log_end_offset, log.log_end_offset)
        assert told == ([0, 1, 2, 3, 4] if version >= 5 else [-1] * 5)


@pytest.mark.parametrize(
    ("acks", "error"), [(1, ErrorCode.NONE), (-1, ErrorCode.NOT_ENOUGH_REPLICAS)]
)
async def test_acks_all_by_shortcut_fails_below_min_insync_replicas(
    tmp_path: Path, acks: int, error: ErrorCode
) -> None:
    """The broker has accepted writes of this connection before."""
    async with broker_with_topics(tmp_path) as (broker, ids):
        client = await RawClient.connect(broker)

        async def write() -> int:
            request = produce("repeated", ids["repeated"], batch(), acks)
            answer = await client.ask(request, 9, ProduceResponse)
            return answer.responses[0].partition_responses[0].error_code

        assert [await write() for _ in range(4)] == [ErrorCode.NONE] * 4
        partition = broker.hosted.led("repeated", 0)
        partition.log.update_config(replace(partition.log.config, min_insync_replicas=2))
        here = partition.node_id
        partition.replicas, partition.isr = (here, here + 1), (here,)
        assert await write() == error
        assert partition.log_end_offset == (5 if error is ErrorCode.NONE else 4)


@pytest.mark.parametrize(
    ("acks", "error"), [(1, ErrorCode.NONE), (-1, ErrorCode.REQUEST_TIMED_OUT)]
)
async def test_acks_all_by_shortcut_waits_for_replicas_that_joined_since(
    tmp_path: Path, acks: int, error: ErrorCode
) -> None:
    async with broker_with_topics(tmp_path) as (broker, ids):
        client = await RawClient.connect(broker)

        async def write() -> int:
            request = produce("repeated", ids["repeated"], batch(), acks)
            request.timeout_ms = 10
            answer = await client.ask(request, 9, ProduceResponse)
            return answer.responses[0].partition_responses[0].error_code

        assert [await write() for _ in range(3)] == [ErrorCode.NONE] * 3
        partition = broker.hosted.led("repeated", 0)
        here = partition.node_id
        partition.replicas = partition.isr = (here, here + 1)
        partition.leading = Unattended(partition)
        assert await write() == error
        assert (partition.log_end_offset, partition.high_watermark) == (4, 3)
