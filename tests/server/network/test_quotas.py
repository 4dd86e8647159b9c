"""Clients are held to their quotas: told at once how long to rest, and not heard meanwhile.

The figures are those of Apache Kafka 4.3.1: eleven windows of a second, of which ten count as gone
by when a client comes; so at once it may have ten seconds' worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.codecs.messages.produce import ProduceResponse
from tests.inside import PATIENCE_S, RawClient, running_broker
from tests.requests.shortcuts.test_repeated_produce import batch, create, produce

BYTES_PER_S = 50_000
REST_MS = 600
AT_ONCE_BYTES = BYTES_PER_S * (10_000 + REST_MS) // 1000
"""Above ten seconds' worth by what takes REST_MS."""

SLACK_MS = 100
"""Headers, and the time between the first request and this one."""


async def set_quota(
    broker: Broker, quota: str, value: float | None, entity: Mapping[str, str | None]
) -> None:
    asked = AlterClientQuotasRequest(
        [
            RequestEntryData(
                [EntityData(*each) for each in entity.items()],
                [OpData(quota, value or 0.0, value is None)],
            )
        ]
    )
    admin = await RawClient.connect(broker, "admin")
    told = await admin.ask(asked, 1, AlterClientQuotasResponse)
    assert [each.error_code for each in told.entries] == [ErrorCode.NONE]


async def rest_of_produce(client: RawClient, topic_id: bytes, size_bytes: int) -> int:
    told = await client.ask(produce("t", topic_id, batch(size_bytes)), 9, ProduceResponse)
    assert told.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return told.throttle_time_ms


def is_about(ms: float) -> bool:
    return REST_MS - SLACK_MS <= ms <= REST_MS + SLACK_MS


async def test_producer_above_its_quota_is_answered_and_muted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        client = await RawClient.connect(broker, "held")  # it is there before the quota is
        for _ in range(3):
            assert not await rest_of_produce(client, topic_id, 10)
        await set_quota(broker, "producer_byte_rate", BYTES_PER_S, {"client-id": "held"})
        before_s = trio.current_time()
        assert is_about(await rest_of_produce(client, topic_id, AT_ONCE_BYTES))
        await rest_of_produce(client, topic_id, 10)
        assert trio.current_time() - before_s >= (REST_MS - SLACK_MS) / 1000
        # Who shares the client id shares the rate; who does not is not held up.
        much = produce("t", topic_id, batch(AT_ONCE_BYTES // 10))  # about a second's rest
        with trio.fail_after(PATIENCE_S):
            await client.ask(much, 9, ProduceResponse)
            while not await rest_of_produce(await RawClient.connect(broker, "held"), topic_id, 10):
                await client.ask(much, 9, ProduceResponse)  # what had stood still is over by now
        assert not await rest_of_produce(
            await RawClient.connect(broker, "other"), topic_id, AT_ONCE_BYTES
        )


async def test_producer_with_acks_0_is_muted_above_its_quota(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        await set_quota(broker, "producer_byte_rate", BYTES_PER_S, {"user": "ANONYMOUS"})
        client = await RawClient.connect(broker)
        before_s = trio.current_time()
        await client.send(produce("t", topic_id, batch(AT_ONCE_BYTES), acks=0), 9)
        await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        assert trio.current_time() - before_s >= (REST_MS - SLACK_MS) / 1000


async def test_client_uses_shortcuts_again_after_its_quota_is_removed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        client = await RawClient.connect(broker)
        entity = {"user": "ANONYMOUS", "client-id": "test"}
        await set_quota(broker, "producer_byte_rate", BYTES_PER_S, entity)
        for _ in range(3):
            await rest_of_produce(client, topic_id, 10)
        assert await rest_of_produce(client, topic_id, AT_ONCE_BYTES)
        await set_quota(broker, "producer_byte_rate", None, entity)
        for _ in range(4):
            assert not await rest_of_produce(client, topic_id, 10)


def fetch_from_the_start(
    max_bytes: int = 1 << 24, epoch: int = -1, session: int = 0
) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )


@pytest.mark.parametrize("epoch", [-1, 0], ids=["on its own", "of a session"])
async def test_consumer_gets_no_records_during_its_throttle_time(
    tmp_path: Path, epoch: int
) -> None:
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        writer = await RawClient.connect(broker)
        for _ in range(2):
            await rest_of_produce(writer, topic_id, AT_ONCE_BYTES - 1000)
        # The rates go by a window of 10 s and the time since its start.
        await set_quota(broker, "consumer_byte_rate", BYTES_PER_S, {"client-id": None})
        client = await RawClient.connect(broker, "reader")
        told = await client.ask(fetch_from_the_start(epoch=epoch), 11, FetchResponse)
        assert is_about(told.throttle_time_ms)
        assert told.responses == []
        assert told.error_code == ErrorCode.NONE
        assert told.session_id == 0
        # What it was not given does not count: a smaller piece it may have.
        await set_quota(broker, "consumer_byte_rate", 2 * BYTES_PER_S, {"client-id": None})
        told = await client.ask(fetch_from_the_start(epoch=epoch), 11, FetchResponse)
        assert told.throttle_time_ms == 0
        records = told.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert len(records) > AT_ONCE_BYTES - 1000


async def test_request_quota_throttles_by_handler_time(tmp_path: Path) -> None:
    """0.0001 % of a thread is 1 us a second; a client rests for a window of a second at most."""
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await set_quota(broker, "request_percentage", 0.0001, {"client-id": "test"})
        told = await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        assert 0 < told.throttle_time_ms <= 1000
        await set_quota(broker, "request_percentage", 1000.0, {"client-id": "test"})
        told = await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        assert told.throttle_time_ms == 0


def new_topics(*topics: tuple[str, int], validate_only: bool = False) -> CreateTopicsRequest:
    wanted = [
        CreatableTopic(name=name, num_partitions=n, replication_factor=1) for name, n in topics
    ]
    return CreateTopicsRequest(topics=wanted, timeout_ms=5000, validate_only=validate_only)


async def test_controller_mutation_quota_counts_partitions(tmp_path: Path) -> None:
    """At a thousandth of a partition a second what is overdrawn takes longer than the test.

    So each request has a connection of its own: those before are not heard any more.
    """
    async with running_broker(tmp_path) as broker:
        await create(broker, "old")
        await set_quota(broker, "controller_mutation_rate", 0.001, {"client-id": "test"})
        first = await RawClient.connect(broker)
        asked = new_topics(("a", 2), ("b", 1), ("no name", 1))
        told = await first.ask(asked, 7, CreateTopicsResponse)
        assert [(each.error_code, each.error_message) for each in told.topics[:2]] == [
            (ErrorCode.NONE, None),
            (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None),
        ]
        assert told.topics[2].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert 1_900_000 < told.throttle_time_ms < 2_000_000
        for asked in (new_topics(("b", 1)), new_topics(("b", 1), validate_only=True)):
            client = await RawClient.connect(broker)
            told = await client.ask(asked, 6, CreateTopicsResponse)
            assert told.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        # Versions that cannot be told so have it all, and rest for it.
        client = await RawClient.connect(broker)
        told = await client.ask(new_topics(("d", 2)), 5, CreateTopicsResponse)
        assert told.topics[0].error_code == ErrorCode.NONE
        assert 3_900_000 < told.throttle_time_ms < 4_000_000
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic("d", 6, None)], timeout_ms=5000, validate_only=False
        )
        for version, error in ((3, ErrorCode.THROTTLING_QUOTA_EXCEEDED), (2, ErrorCode.NONE)):
            client = await RawClient.connect(broker)
            grown = await client.ask(more, version, CreatePartitionsResponse)
            assert grown.results[0].error_code == error
            assert grown.throttle_time_ms > 3_900_000
        gone = DeleteTopicsRequest(topic_names=["old", "nope"], timeout_ms=5000)
        for client_id, error in (
            ("test", ErrorCode.THROTTLING_QUOTA_EXCEEDED),
            ("other", ErrorCode.NONE),
        ):
            client = await RawClient.connect(broker, client_id)
            left = await client.ask(gone, 5, DeleteTopicsResponse)
            assert {each.name: each.error_code for each in left.responses} == {
                "old": error,
                "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }


async def test_client_throttled_longer_than_max_idle_is_closed(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"connections.max.idle.ms": "300"}) as broker:
        await set_quota(broker, "controller_mutation_rate", 0.001, {"client-id": "test"})
        client = await RawClient.connect(broker)
        told = await client.ask(new_topics(("a", 2)), 5, CreateTopicsResponse)
        assert told.throttle_time_ms > 1_000_000
        assert await client.receive_frame() is None


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", None])
async def test_connection_above_its_address_rate_is_closed_after_the_throttle_time(
    tmp_path: Path, name: str | None
) -> None:
    async with running_broker(tmp_path) as broker:
        await set_quota(broker, "connection_creation_rate", 1, {"ip": name})
        held: list[float] = []
        with trio.fail_after(240):  # a host's address has to be found out first
            while not held:
                client = await RawClient.connect(broker)
                before_s = trio.current_time()
                await client.send(ListGroupsRequest(), 4)
                if await client.receive_frame() is None:
                    held.append(trio.current_time() - before_s)
        assert held[0] > 0.01


async def test_quotas_apply_after_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        topic_id = await create(broker, "t")
        await set_quota(broker, "producer_byte_rate", BYTES_PER_S, {"user": None})
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        assert await rest_of_produce(client, topic_id, AT_ONCE_BYTES)
