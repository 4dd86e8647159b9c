"""Client telemetry of a broker: subscriptions made at run time, and what becomes of pushes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kwire.broker.telemetry import topic as telemetry_topic
from kwire.cluster.metadata.topic_names import TELEMETRY_TOPIC
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import iter_batches, records
from kwire.codecs.compression import Compression, compress
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.codecs.record import Record
from kwire.codecs.uuids import uuid_text
from tests.cluster.decisions.client import CLIENT_METRICS, DELETE, SET, AdminClient
from tests.cluster.decisions.client import TOPIC as TOPIC_CONFIGS
from tests.inside import RawClient, running_broker, until

OTLP = b"\x0a\x00"
"""MetricsData of one resource that has none."""


@asynccontextmanager
async def opened(tmp_path: Path, **settings: str) -> AsyncIterator[AdminClient]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    async with running_broker(tmp_path / "data", given) as broker:
        yield AdminClient(broker, await RawClient.connect(broker))


async def subscribe(admin: AdminClient, **settings: str) -> None:
    edits = [(name.replace("_", "."), SET, value) for name, value in settings.items()]
    assert await admin.alter(CLIENT_METRICS, "s", *edits) == (ErrorCode.NONE, None)


async def ask(
    admin: AdminClient, instance_id: bytes = bytes(16)
) -> GetTelemetrySubscriptionsResponse:
    request = GetTelemetrySubscriptionsRequest(instance_id)
    return await admin.ask(request, 0, GetTelemetrySubscriptionsResponse)


async def push(
    admin: AdminClient,
    told: GetTelemetrySubscriptionsResponse,
    metrics: bytes = OTLP,
    codec: Compression = Compression.NONE,
    *,
    terminating: bool = False,
) -> ErrorCode:
    client, subscription = told.client_instance_id, told.subscription_id
    request = PushTelemetryRequest(client, subscription, terminating, codec, metrics)
    return ErrorCode((await admin.ask(request, 0, PushTelemetryResponse)).error_code)


async def kept(admin: AdminClient, count: int) -> list[Record]:
    """What the topic holds, once it is so many records."""

    def log_end_offset() -> int:
        partition = admin.broker.hosted.get(TELEMETRY_TOPIC, 0)
        return 0 if partition is None else partition.log_end_offset

    await until(lambda: log_end_offset() >= count)
    log = admin.broker.hosted.led(TELEMETRY_TOPIC, 0).log
    found = log.read(0, 1 << 20, max_offset=count, min_one_batch=True)
    assert found is not None
    data = found.read()
    return [each for at, _ in iter_batches(data) for each in records(data, at)]


async def test_push_of_a_subscribed_client_becomes_a_record(tmp_path: Path) -> None:
    async with opened(tmp_path) as admin:
        await subscribe(admin, metrics="*", interval_ms="1000")
        told = await ask(admin)
        assert (told.requested_metrics, told.push_interval_ms) == (["*"], 1000)
        assert await push(admin, told, compress(Compression.ZSTD, OTLP), Compression.ZSTD) == 0
        assert await push(admin, told, b"", terminating=True) == 0
        record = (await kept(admin, 1))[0]
        assert record.key == uuid_text(told.client_instance_id).encode()
        assert record.value == OTLP
        headers = dict(record.headers)
        assert headers["client_source_address"] == b"127.0.0.1"
        assert headers["principal"] == b"User:ANONYMOUS"
        assert headers["terminating"] == b"false"
        configs = await admin.config(TOPIC_CONFIGS, TELEMETRY_TOPIC, "retention.bytes")
        assert configs.value == str(100 * 1024 * 1024)


async def test_api_versions_lists_telemetry_while_a_subscription_exists(tmp_path: Path) -> None:
    async def listed(admin: AdminClient) -> set[int]:
        reply = await admin.ask(ApiVersionsRequest("test", "1"), 4, ApiVersionsResponse)
        telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
        return {each.api_key for each in reply.api_keys} & telemetry

    async with opened(tmp_path) as admin:
        assert await listed(admin) == set()
        await subscribe(admin, metrics="a")
        assert await listed(admin) == {71, 72}
    async with opened(tmp_path) as admin:
        assert await listed(admin) == {71, 72}
        assert await admin.alter(CLIENT_METRICS, "s", ("metrics", DELETE, None)) == (0, None)
        assert await listed(admin) == set()


async def test_push_without_a_subscription_is_dropped(tmp_path: Path) -> None:
    async with opened(tmp_path) as admin:
        told = await ask(admin)
        assert await push(admin, told) == ErrorCode.NONE
        assert admin.broker.telemetry.topic.waiting_bytes == 0
        assert TELEMETRY_TOPIC not in await admin.names()


async def test_subscription_applies_from_its_change_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as admin:
        first = await ask(admin)
        await subscribe(admin, metrics="a")
        second = await ask(admin, first.client_instance_id)
        assert second.requested_metrics == ["a"]
        assert await push(admin, first) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        assert await admin.alter(CLIENT_METRICS, "s", ("metrics", DELETE, None)) == (0, None)
        assert (await ask(admin, first.client_instance_id)).requested_metrics == []
        throttled = await ask(admin, first.client_instance_id)
        assert throttled.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_subscriptions_apply_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as admin:
        await subscribe(admin, metrics="a,b", interval_ms="2000")
        told = await ask(admin)
    async with opened(tmp_path) as admin:
        again = await ask(admin, told.client_instance_id)
        assert again == told


async def test_client_with_a_closed_connection_starts_over(tmp_path: Path) -> None:
    async with opened(tmp_path) as admin:
        link = await RawClient.connect(admin.broker)
        told = await ask(AdminClient(admin.broker, link))
        assert (await ask(admin, told.client_instance_id)).error_code
        await link.stream.aclose()
        await until(lambda: not admin.broker.telemetry.knows(told.client_instance_id))
        assert await ask(admin, told.client_instance_id) == told


@pytest.mark.parametrize("codec", [each for each in Compression if each])
async def test_payload_above_the_limit_after_decompression_is_refused(
    tmp_path: Path, codec: Compression
) -> None:
    async with opened(tmp_path, telemetry_max_bytes="1000") as admin:
        for size_bytes, error in ((1000, ErrorCode.NONE), (1001, ErrorCode.INVALID_RECORD)):
            told = await ask(admin)
            assert told.telemetry_max_bytes == 1000
            assert await push(admin, told, compress(codec, bytes(size_bytes)), codec) == error
        told = await ask(admin)
        assert await push(admin, told, b"nonsense", codec) == ErrorCode.INVALID_RECORD


async def test_waiting_pushes_are_limited_and_drops_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Until the topic has a leader; then what waited is written."""
    monkeypatch.setattr(telemetry_topic, "WAITING_BYTES_MAX", 2500)
    monkeypatch.setattr(telemetry_topic, "RETRY_AFTER_S", 0.01)
    async with opened(tmp_path) as admin:
        await subscribe(admin, metrics="*")
        broker = admin.broker
        create = broker.membership.create_internal_topic
        monkeypatch.setattr(broker.membership, "create_internal_topic", _nothing)
        for number in range(4):
            assert await push(admin, await ask(admin), bytes([number]) * 1000) == ErrorCode.NONE
        assert broker.telemetry.topic.waiting_bytes == 2000
        assert broker.telemetry.topic.dropped == 2
        monkeypatch.setattr(broker.membership, "create_internal_topic", create)
        assert [record.value[:1] for record in await kept(admin, 2) if record.value] == [
            b"\0",
            b"\1",
        ]
        await until(lambda: broker.telemetry.topic.dropped == 0)
    assert "2 pushes of client metrics were dropped" in caplog.text


async def _nothing(name: str) -> None:
    """A cluster that cannot make a topic now."""
