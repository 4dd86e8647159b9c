"""Connections over real sockets: framing, order, limits, and what ends them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.log import LogDirLocked
from kwire.requests.handlers.fetching.fetch import Fetch
from kwire.requests.routes import ROUTES
from tests.inside import (
    PATIENCE_S,
    RawClient,
    is_waited_for,
    port_of,
    running_broker,
    until,
)

TOPIC = "flights"


async def connected(broker: Broker) -> RawClient:
    """A client, with a topic to write to."""
    client = await RawClient.connect(broker)
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    created = await client.ask(
        CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5, CreateTopicsResponse
    )
    assert created.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)
    return client


def produce(size_bytes: int = 10, *, acks: int = 1, topic: str = TOPIC) -> ProduceRequest:
    records = bytes(build([Record(0, Broker.now_ms(), None, bytes(size_bytes), [])]))
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch(offset: int, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 24)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 24,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )


async def is_closed(client: RawClient) -> bool:
    with trio.fail_after(PATIENCE_S):
        return await client.receive_frame() is None


async def is_served(client: RawClient) -> bool:
    """Whether it gets a reply; the broker closes those that it does not serve."""
    try:
        await client.send(ApiVersionsRequest(), 0)
    except trio.BrokenResourceError:
        return False
    return not await is_closed(client)


@pytest.mark.parametrize("version", range(6))
async def test_api_versions_lists_all_routes_in_each_version(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        request = ApiVersionsRequest()
        if version >= 3:
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        told = await client.ask(request, version, ApiVersionsResponse)
        assert told.error_code == ErrorCode.NONE
        of_all = {route.api_key for route in ROUTES if not route.for_client_metrics}
        assert [key.api_key for key in told.api_keys] == sorted(of_all)


async def test_api_versions_of_an_unknown_version_is_answered_in_version_0(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await client.stream.send_all(struct.pack(">ihhih", 12, 18, 99, 7, -1) + b"\0\0")
        correlation_id, told = await client.receive(ApiVersionsResponse, 0)
        assert correlation_id == 7
        assert told.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(k.api_key, k.min_version, k.max_version) for k in told.api_keys] == [(18, 0, 5)]


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a b", "1"), ("-a", "1"), ("a-", "1"), ("a", "")]
)
async def test_api_versions_refuses_an_invalid_client_software_name(
    tmp_path: Path, name: str, version: str
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        told = await client.ask(request, 3, ApiVersionsResponse)
        assert told.error_code == ErrorCode.INVALID_REQUEST
        assert told.api_keys == []


async def test_request_sent_byte_by_byte_is_answered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        for byte in client.frame(ApiVersionsRequest(), 2):
            await client.stream.send_all(bytes([byte]))
        _, told = await client.receive(ApiVersionsResponse, 2)
        assert told.error_code == ErrorCode.NONE


async def test_replies_keep_the_order_of_requests_behind_a_waiting_fetch(tmp_path: Path) -> None:
    """A fetch that waits holds back what was sent after it, and is not overtaken."""
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        frames = [
            client.frame(produce(), 7),
            client.frame(fetch(1, max_wait_ms=200), 11),
            client.frame(ApiVersionsRequest(), 0),
        ]
        await client.stream.send_all(b"".join(frames))
        first, _ = await client.receive(ProduceResponse, 7)
        second, fetched = await client.receive(FetchResponse, 11)
        third, _ = await client.receive(ApiVersionsResponse, 0)
        assert [second - first, third - first] == [1, 2]
        assert fetched.error_code == ErrorCode.NONE


async def test_waiting_fetch_returns_records_that_another_connection_produces(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as broker:
        reader = await connected(broker)
        writer = await RawClient.connect(broker)
        await reader.send(fetch(0, max_wait_ms=600_000), 11)
        await until(lambda: is_waited_for(broker, TOPIC))
        await writer.ask(produce(), 7, ProduceResponse)
        with trio.fail_after(PATIENCE_S):
            _, fetched = await reader.receive(FetchResponse, 11)
        assert fetched.responses[0].partitions[0].high_watermark == 1


async def test_unhandled_error_is_answered_and_the_connection_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And who it is goes on."""

    async def fail(_: Fetch, max_wait_ms: int) -> FetchResponse:
        await trio.lowlevel.checkpoint()
        raise RuntimeError(f"a defect, {max_wait_ms}")

    monkeypatch.setattr(Fetch, "wait", fail)
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        reply = await client.ask(fetch(0, 5000), 12, FetchResponse)
        assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "a defect, 5000" in caplog.text
        assert await is_served(client)


async def test_produce_with_acks_0_gets_no_reply_and_keeps_the_order(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        await client.send(produce(acks=0), 7)
        answer = await client.ask(produce(), 7, ProduceResponse)
        assert answer.responses[0].partition_responses[0].base_offset == 1


async def test_failed_produce_with_acks_0_closes_the_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        await client.send(produce(acks=0, topic="unknown"), 7)
        assert await is_closed(client)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(struct.pack(">i", 0), id="empty"),
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="above socket.request.max.bytes"),
        pytest.param(struct.pack(">i", 3) + b"abc", id="shorter than a header"),
        pytest.param(struct.pack(">i", 1) + bytes(20), id="of one byte, and more behind it"),
        pytest.param(struct.pack(">ihhih", 10, 200, 0, 1, -1), id="unknown API key"),
        pytest.param(struct.pack(">ihhih", 10, 0, 99, 1, -1), id="unknown version"),
        pytest.param(struct.pack(">ihhih", 10, 0, 2, 1, -1), id="version no longer served"),
        pytest.param(struct.pack(">ihhih", 10, 3, 1, 1, -1), id="body missing"),
        pytest.param(struct.pack(">ihhih", 10, 3, 12, 1, 30), id="client id beyond the end"),
        pytest.param(struct.pack(">ihhih", 10, 3, 12, 1, -1), id="tagged fields missing"),
    ],
)
async def test_invalid_frame_closes_only_its_own_connection(
    tmp_path: Path, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path) as broker:
        other = await RawClient.connect(broker)
        client = await RawClient.connect(broker)
        await client.stream.send_all(frame)
        assert await is_closed(client)
        told = await other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert told.error_code == ErrorCode.NONE
    assert "unhandled" not in caplog.text


async def test_request_above_socket_request_max_bytes_closes_the_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"socket.request.max.bytes": "2000"}) as broker:
        for size_bytes, served in ((1999, True), (2000, True), (2001, False)):
            client = await RawClient.connect(broker, "n" * (size_bytes - 10))
            assert len(client.frame(ApiVersionsRequest(), 0)) == 4 + size_bytes
            assert await is_served(client) is served


@pytest.mark.parametrize("client_id", [None, "", "é" * 100])
async def test_request_is_answered_with_any_client_id(
    tmp_path: Path, client_id: str | None
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker, client_id)
        told = await client.ask(
            HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 3, HeartbeatResponse
        )
        assert told.error_code == ErrorCode.INVALID_GROUP_ID


async def test_request_is_answered_with_a_client_id_that_is_not_utf8(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker, "??")
        frame = client.frame(ApiVersionsRequest(), 0).replace(b"??", b"\xff\xfe")
        await client.stream.send_all(frame)
        assert (await client.receive(ApiVersionsResponse, 0))[1].error_code == ErrorCode.NONE


async def test_large_requests_and_replies_arrive_complete(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        for index, size_bytes in enumerate((1_000_000, 10, 500_000)):
            written = await client.ask(produce(size_bytes), 7, ProduceResponse)
            assert written.responses[0].partition_responses[0].base_offset == index
        read = await client.ask(fetch(0), 11, FetchResponse)
        records = read.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert len(records) > 1_500_000


async def test_client_that_reads_slowly_gets_all_replies(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        await client.ask(produce(1_000_000), 7, ProduceResponse)
        replies = 16  # more than the kernel's buffers of both ends hold
        for _ in range(replies):
            await client.send(fetch(0), 11)
        await trio.lowlevel.wait_readable(client.stream.socket)  # it has begun to reply
        for _ in range(replies):
            _, read = await client.receive(FetchResponse, 11)
            records = read.responses[0].partitions[0].records
            assert isinstance(records, memoryview)
            assert len(records) > 1_000_000


@pytest.mark.slow
async def test_idle_connection_and_incomplete_request_are_closed(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"connections.max.idle.ms": "100"}) as broker:
        idle = await RawClient.connect(broker)
        half = await RawClient.connect(broker)
        await half.stream.send_all(b"\0\0")
        assert await is_closed(idle)
        assert await is_closed(half)


@pytest.mark.slow
async def test_connection_is_idle_only_after_its_pending_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.server.network.listener.REAP_INTERVAL_S", 0.02)
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        await client.send(fetch(0, max_wait_ms=600), 11)
        await until(lambda: is_waited_for(broker, TOPIC))
        broker.settings.config = broker.settings.static_config.with_dynamic(
            {"connections.max.idle.ms": "100"}
        )
        await client.receive(FetchResponse, 11)
        assert await is_closed(client)


async def test_connection_above_max_connections_per_ip_is_closed(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"max.connections.per.ip": "2"}) as broker:
        allowed = [await RawClient.connect(broker) for _ in range(2)]
        for client in allowed:
            await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert await is_closed(await RawClient.connect(broker))
        await allowed[0].stream.aclose()
        with trio.fail_after(PATIENCE_S):
            while not await is_served(await RawClient.connect(broker)):
                pass  # until the broker has seen that one has gone


async def test_connection_above_max_connections_waits_for_room(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"max.connections": "1"}) as broker:
        first = await RawClient.connect(broker)
        await first.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        second = await RawClient.connect(broker)
        await second.send(ApiVersionsRequest(), 0)
        with trio.move_on_after(0.1) as waited:
            await second.receive_frame()
        assert waited.cancelled_caught
        await first.stream.aclose()
        with trio.fail_after(PATIENCE_S):
            await second.receive(ApiVersionsResponse, 0)


async def test_request_waits_for_memory_of_the_full_pool(tmp_path: Path) -> None:
    settings = {"queued.max.request.bytes": "1000000", "socket.request.max.bytes": "900000"}
    async with running_broker(tmp_path, settings) as broker:
        greedy, other = await connected(broker), await connected(broker)
        large = greedy.frame(produce(800_000), 7)
        await greedy.stream.send_all(large[:-1])
        for _ in range(10):  # turns of the loop, in which the broker takes memory for it
            await trio.sleep(0.005)
        async with trio.open_nursery() as nursery:
            frame = other.frame(produce(700_000), 7)
            nursery.start_soon(other.stream.send_all, frame)  # more than the kernel buffers
            with trio.move_on_after(0.1) as waited:
                await other.receive_frame()
            assert waited.cancelled_caught
            await greedy.stream.send_all(large[-1:])
            with trio.fail_after(PATIENCE_S):
                await greedy.receive(ProduceResponse, 7)
                await other.receive(ProduceResponse, 7)


async def test_second_broker_on_a_used_directory_does_not_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        with pytest.RaisesGroup(LogDirLocked, flatten_subgroups=True):
            async with running_broker(tmp_path):
                pytest.fail("started on a locked directory")
        assert port_of(broker)


async def test_stop_closes_connections_and_keeps_the_records(tmp_path: Path) -> None:
    stop = trio.Event()
    async with running_broker(tmp_path, stop=stop) as broker:
        client = await connected(broker)
        await client.ask(produce(), 7, ProduceResponse)
        await client.send(fetch(1, max_wait_ms=600_000), 11)
        await until(lambda: is_waited_for(broker, TOPIC))
        stop.set()
        assert await is_closed(client)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        again = await client.ask(produce(), 7, ProduceResponse)
        assert again.responses[0].partition_responses[0].base_offset == 1
