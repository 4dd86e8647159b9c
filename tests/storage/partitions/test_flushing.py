"""`flush.messages`: acknowledged records are on disk; producers share flushes and wait for them."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.log import Log, LogError
from kwire.log.upkeep.flush import Flush
from tests.descriptors import path_of
from tests.inside import PATIENCE_S, RawClient, running_broker

TOPIC = "durable"


class SlowDisk:
    """Holds each fsync of a segment until the test releases it, and counts them."""

    def __init__(self, fsync: Callable[[int], None]) -> None:
        self._fsync = fsync
        self.calls = 0
        self.held = threading.Event()
        self.go = threading.Semaphore(0)
        self.open = False
        self.error: OSError | None = None

    def __call__(self, fd: int) -> None:
        path = Path(path_of(fd))
        if self.open or path.suffix != ".log" or not path.stem.isdigit():
            self._fsync(fd)
            return
        self.calls += 1
        self.held.set()
        assert self.go.acquire(timeout=PATIENCE_S)
        if self.error is not None:
            raise self.error
        self._fsync(fd)

    async def until_held(self) -> None:
        """Wait until an fsync is in progress."""
        assert await trio.to_thread.run_sync(self.held.wait, PATIENCE_S)
        self.held.clear()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    slow = SlowDisk(os.fsync)
    monkeypatch.setattr("kwire.log.directory.files.Files.fsync", staticmethod(slow))
    return slow


async def connected(
    broker: Broker, flush_messages: int = 1, *, topic_name: str = TOPIC
) -> RawClient:
    client = await RawClient.connect(broker)
    configs = [CreatableTopicConfig("flush.messages", str(flush_messages))]
    topic = CreatableTopic(name=topic_name, num_partitions=1, replication_factor=1, configs=configs)
    await client.ask(CreateTopicsRequest([topic], 5000), 5, CreateTopicsResponse)
    return client


def produce(acks: int = 1) -> ProduceRequest:
    records = bytes(build([Record(0, Broker.now_ms(), None, b"v")]))
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=9000, topic_data=[topic])


def error_of(response: ProduceResponse) -> int:
    return response.responses[0].partition_responses[0].error_code


async def high_watermark(client: RawClient) -> int:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[topic])
    reply = await client.ask(request, 11, FetchResponse)
    return reply.responses[0].partitions[0].high_watermark


@pytest.mark.parametrize("acks", [1, -1])
async def test_waiting_producers_share_one_fsync(tmp_path: Path, disk: SlowDisk, acks: int) -> None:
    answers: list[ProduceResponse] = []

    async def write(broker: Broker) -> None:
        client = await RawClient.connect(broker)
        answers.append(await client.ask(produce(acks), 7, ProduceResponse))

    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, broker)
            await disk.until_held()
            for _ in range(9):
                nursery.start_soon(write, broker)
            partition = broker.hosted.get(TOPIC, 0)
            assert partition is not None
            with trio.fail_after(PATIENCE_S):
                while partition.log_end_offset < 10:
                    await trio.testing.wait_all_tasks_blocked(0.001)
            assert answers == []
            assert await high_watermark(client) == 0  # what is not durable is not to be seen
            reply = await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            assert reply.error_code == 0  # and everybody else is served
            disk.go.release()
            await disk.until_held()
            assert len(answers) == 1
            assert await high_watermark(client) == 1
            disk.go.release()
        assert [error_of(answer) for answer in answers] == [0] * 10
        assert disk.calls == 2
        assert await high_watermark(client) == 10
        disk.open = True


async def test_append_below_flush_messages_does_not_wait(tmp_path: Path, disk: SlowDisk) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker, flush_messages=3)
        for _ in range(2):
            assert error_of(await client.ask(produce(), 7, ProduceResponse)) == 0
        assert disk.calls == 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.ask, produce(), 7, ProduceResponse)
            await disk.until_held()
            disk.go.release()
        assert disk.calls == 1
        disk.open = True


async def test_failed_flush_answers_all_waiting_producers_with_an_error(
    tmp_path: Path, disk: SlowDisk
) -> None:
    """The records are never acknowledged, because the content of the disk is unknown then."""
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    answers: list[int] = []

    async def write(broker: Broker, acks: int) -> None:
        client = await RawClient.connect(broker)
        answers.append(error_of(await client.ask(produce(acks), 7, ProduceResponse)))

    settings = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_broker(tmp_path, settings) as broker:
        await connected(broker, topic_name="in-the-first-directory")
        await connected(broker)
        async with trio.open_nursery() as nursery:
            for acks in (1, -1):
                nursery.start_soon(partial(write, broker, acks))
            await disk.until_held()
            disk.go.release(5)
        assert answers == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        disk.open = True


async def test_produce_by_a_shortcut_waits_for_its_flush(tmp_path: Path, disk: SlowDisk) -> None:
    """The shortcut was recorded before `flush.messages` was set."""
    async with running_broker(tmp_path) as broker:
        client = await connected(broker, flush_messages=1_000_000)
        for _ in range(4):
            assert error_of(await client.ask(produce(), 7, ProduceResponse)) == 0
        partition = broker.hosted.get(TOPIC, 0)
        assert partition is not None
        partition.log.update_config(broker.node.log_config("another topic"))
        for _ in range(3):  # now it is learnt
            assert error_of(await client.ask(produce(), 7, ProduceResponse)) == 0
        partition.log.update_config(replace(broker.node.log_config(TOPIC), flush_messages=1))
        answers: list[ProduceResponse] = []

        async def write() -> None:
            answers.append(await client.ask(produce(), 7, ProduceResponse))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await disk.until_held()
            # An answer that did not wait was sent before the fsync began, so before this one.
            assert await high_watermark(await RawClient.connect(broker)) == 7
            assert answers == []
            disk.go.release()
        assert [error_of(answer) for answer in answers] == [0]
        assert disk.calls == 1
        disk.open = True


async def test_flush_is_tried_again_after_a_shortage(
    tmp_path: Path, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appended records that cannot be flushed yet are not refused, or clients would repeat them."""
    disk.open = True
    tries = 0
    prepare = Log.prepare_flush

    def out_of_descriptors(self: Log, now_ms: int | None = None) -> Flush | None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, os.strerror(errno.EMFILE))
        return prepare(self, now_ms)

    monkeypatch.setattr(Log, "prepare_flush", out_of_descriptors)
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        with trio.fail_after(PATIENCE_S):
            assert error_of(await client.ask(produce(), 7, ProduceResponse)) == 0
        assert tries == 3
        assert await high_watermark(client) == 1


async def test_produce_is_answered_after_its_flush(tmp_path: Path) -> None:
    """Each Produce is answered after its own flush; such a flush also counts for `flush.ms`."""
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        partition = broker.hosted.get(TOPIC, 0)
        assert partition is not None
        for count in range(1, 4):
            before_ms = Broker.now_ms()
            with trio.fail_after(PATIENCE_S):
                assert error_of(await client.ask(produce(), 7, ProduceResponse)) == 0
            assert partition.log.recovery_point == count
            assert partition.log.durability.last_flush_ms >= before_ms
