"""A topic with many partitions is created in steps, so that other requests do not wait for it."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.codecs.messages.produce import ProduceResponse
from kwire.log import LogError, LogManager
from tests.inside import RawClient, running_broker
from tests.server.network.test_connection import TOPIC, produce

PARTITIONS = 100


async def create(client: RawClient, **configs: str) -> None:
    topic = CreatableTopic(
        name=TOPIC,
        num_partitions=PARTITIONS,
        replication_factor=1,
        configs=[CreatableTopicConfig(name, value) for name, value in configs.items()],
    )
    created = await client.ask(
        CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5, CreateTopicsResponse
    )
    assert created.topics[0].error_code == ErrorCode.NONE


async def test_other_tasks_run_between_the_new_partitions(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        logs: list[int] = []

        async def watch(broker: Broker) -> None:
            while True:
                logs.append(len(broker.hosted.logs.logs))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, broker)
            await create(client)
            nursery.cancel_scope.cancel()
        # The last pass may cancel the watching task before it looks.
        logs.append(len(broker.hosted.logs.logs))
        # Two, because the tasks of a pass run in any order.
        assert max(after - before for before, after in pairwise(logs)) <= 2
        assert logs[-1] == PARTITIONS


async def test_topic_is_hosted_as_a_whole_with_its_configs(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        hosted: set[int] = set()

        async def watch(broker: Broker) -> None:
            while True:
                hosted.add(len(broker.hosted.by_topic.get(TOPIC, ())))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, broker)
            await create(client, **{"retention.ms": "77"})
            nursery.cancel_scope.cancel()
        # The last pass may cancel the watching task before it looks.
        hosted.add(len(broker.hosted.by_topic[TOPIC]))
        assert hosted == {0, PARTITIONS}
        for partition in broker.hosted:
            assert partition.log.config.retention_ms == 77
            assert partition.is_leader
            assert partition.log.epochs.entries == [(partition.leader_epoch, 0)]


async def test_topic_that_is_created_again_has_empty_partitions(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        for _ in range(2):
            await create(client)
            told = await client.ask(produce(), 9, ProduceResponse)
            assert told.responses[0].partition_responses[0].base_offset == 0
            deleted = await client.ask(
                DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=60_000),
                4,
                DeleteTopicsResponse,
            )
            assert deleted.responses[0].error_code == ErrorCode.NONE


async def test_partition_without_room_is_opened_later_and_the_others_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, full = LogManager.create, True

    def create_log(
        self: LogManager, topic: str, topic_id: bytes, index: int, *rest: object
    ) -> object:
        if full and index == 3:
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(OSError(errno.ENOSPC, "full")))
        return usual(self, topic, topic_id, index, *rest)  # type: ignore[arg-type]  # the same ones

    monkeypatch.setattr(LogManager, "create", create_log)
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await create(client)
        assert broker.hosted.by_topic[TOPIC].keys() == set(range(PARTITIONS)) - {3}
        full = False
        broker.membership.open_missing()
        assert len(broker.hosted.by_topic[TOPIC]) == PARTITIONS
