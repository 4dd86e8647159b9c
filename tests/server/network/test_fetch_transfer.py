"""Records on their way from segment files to sockets: small ones, large ones, slow readers."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.log import ColdLookup
from kwire.log.reading.region import Region
from tests.inside import PATIENCE_S, RawClient, is_waited_for, running_broker, until
from tests.pages import forget_or_skip

KB = 1024


def batch(size_bytes: int, rng: random.Random) -> bytearray:
    return build([Record(0, Broker.now_ms(), None, rng.randbytes(size_bytes))])


async def filled(broker: Broker, sizes: list[int], rng: random.Random) -> list[bytes]:
    """Topic `t` with one batch of each size in a partition of its own; the bytes as stored."""
    client = await RawClient.connect(broker)
    topic = CreatableTopic(name="t", num_partitions=len(sizes), replication_factor=1)
    await client.ask(CreateTopicsRequest([topic], 5000), 5, CreateTopicsResponse)
    stored = []
    for index, size_bytes in enumerate(sizes):
        written = batch(size_bytes, rng)
        partition = broker.hosted.get("t", index)
        assert partition is not None
        partition.append(written, now_ms=Broker.now_ms())
        stored.append(bytes(written))
    return stored


def fetch(broker: Broker, version: int, count: int, offset: int = 0) -> FetchRequest:
    asked = [
        FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 24)
        for index in range(count)
    ]
    topic = FetchTopic(topic="t", partitions=asked)
    if version >= 13:
        topic = FetchTopic(topic_id=broker.image.topics["t"].id, partitions=asked)
    return FetchRequest(max_wait_ms=5000, min_bytes=1, max_bytes=1 << 26, topics=[topic])


def records(reply: FetchResponse) -> list[bytes]:
    return [
        bytes(data.records or b"")  # type: ignore[arg-type]  # decoded: never a region
        for topic in reply.responses
        for data in topic.partitions
    ]


@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [15 * KB],
        [16 * KB],
        [500 * KB],
        [1, 500 * KB, 1],
        [500 * KB, 1, 500 * KB],
        [15 * KB] * 12,
        [15 * KB] * 5,
        [500 * KB] * 3,
    ],
    ids=lambda sizes: "+".join(str(size) for size in sizes[:3]) + f" ({len(sizes)})",
)
async def test_fetch_returns_any_mix_of_small_and_large_batches(
    tmp_path: Path, rng: random.Random, sizes: list[int]
) -> None:
    async with running_broker(tmp_path) as broker:
        stored = await filled(broker, sizes, rng)
        client = await RawClient.connect(broker)
        for version in (4, 7, 12, 17):
            with trio.fail_after(PATIENCE_S):
                request = fetch(broker, version, len(sizes))
                reply = await client.ask(request, version, FetchResponse)
            assert records(reply) == stored


async def test_slow_consumer_gets_all_records_while_another_is_served(
    tmp_path: Path, rng: random.Random
) -> None:
    """And another one is served meanwhile."""
    async with running_broker(tmp_path) as broker:
        stored = await filled(broker, [900 * KB] * 4, rng)
        slow, quick = [await RawClient.connect(broker) for _ in range(2)]
        request = fetch(broker, 12, 4)
        await slow.send(request, 12)
        await trio.lowlevel.wait_readable(slow.stream.socket)  # the broker has begun to reply
        with trio.fail_after(PATIENCE_S):
            assert records(await quick.ask(request, 12, FetchResponse)) == stored
            _, late = await slow.receive(FetchResponse, 12)
            assert records(late) == stored


async def test_records_reach_a_waiting_consumer_on_another_connection(
    tmp_path: Path, rng: random.Random
) -> None:
    async with running_broker(tmp_path) as broker:
        await filled(broker, [100], rng)
        client = await RawClient.connect(broker)
        await client.send(fetch(broker, 12, 1, offset=1), 12)
        await until(lambda: is_waited_for(broker, "t"))
        partition = broker.hosted.get("t", 0)
        assert partition is not None
        assert len(partition.fetch_waiters) == 1
        written = batch(100, rng)
        partition.append(written, now_ms=Broker.now_ms())
        with trio.fail_after(PATIENCE_S):
            _, reply = await client.receive(FetchResponse, 12)
        assert records(reply) == [bytes(written)]
        assert not partition.fetch_waiters


async def test_fetch_of_cold_records_reads_them_in_a_thread(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece counts as cold until it is read in: a fast disk may have it by the first look."""
    sizes = [700 * KB, 30 * KB, 2500 * KB]
    readers: list[int] = []
    read: set[tuple[int, int]] = set()
    read_in = Region.read_in

    def noted(self: Region, start: int, size_bytes: int) -> None:
        readers.append(threading.get_ident())
        read_in(self, start, size_bytes)
        read.add((self.fileno(), self.position + start))

    monkeypatch.setattr(Region, "read_in", noted)
    monkeypatch.setattr(
        Region,
        "is_resident",
        lambda self, start, _: (self.fileno(), self.position + start) in read,
    )
    async with running_broker(tmp_path, {"message.max.bytes": "5000000"}) as broker:
        stored = await filled(broker, sizes, rng)
        client = await RawClient.connect(broker)
        with trio.fail_after(PATIENCE_S):
            reply = await client.ask(fetch(broker, 12, len(sizes)), 12, FetchResponse)
        assert records(reply) == stored
    assert len(readers) >= len(sizes)
    assert threading.get_ident() not in readers


async def test_fetch_offset_in_a_cold_segment_is_looked_up_in_a_thread(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many segments whose files are closed and whose pages are gone, as of an old topic."""
    lookups: list[int] = []
    read_in = ColdLookup.read_in

    def noted(self: ColdLookup) -> None:
        lookups.append(threading.get_ident())
        read_in(self)

    monkeypatch.setattr(ColdLookup, "read_in", noted)
    settings = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "1000"}
    async with running_broker(tmp_path, settings) as broker:
        await filled(broker, [10], rng)
        partition = broker.hosted.get("t", 0)
        assert partition is not None
        stored = []
        for _ in range(500):
            written = batch(10_000, rng)
            partition.append(written, now_ms=Broker.now_ms())
            stored.append(bytes(written))
        for segment in list(partition.log.segments)[:-1]:
            segment.release()
        forget_pages(tmp_path)
        client = await RawClient.connect(broker)
        for offset in (250, 251, 3, 500):
            request = fetch(broker, 12, 1, offset=offset)
            request.topics[0].partitions[0].partition_max_bytes = 10
            with trio.fail_after(PATIENCE_S):
                reply = await client.ask(request, 12, FetchResponse)
            assert records(reply) == [stored[offset - 1]]
    assert 2 <= len(lookups) <= 3  # 251 stands beside 250, and 500 is at the end
    assert threading.get_ident() not in lookups


def forget_pages(directory: Path) -> None:
    """Have the kernel drop what it holds of the segments; skips where it keeps everything."""
    for path in (*directory.glob("t-*/*.log"), *directory.glob("t-*/*index")):
        with open(path, "rb") as file:
            forget_or_skip(file.fileno())
