"""Dead letters on one broker: the topic, its creation, and a broker that ends in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.cluster.decisions.topic_creation import NewTopic, creations
from kwire.codecs.batches import Record, build, iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
from kwire.codecs.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeResponse
from kwire.codecs.messages.share_fetch import ShareFetchResponse
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.conformance.behaviour.asking import SET, alter
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.share_group import REJECT, acknowledge, fetch, heartbeat
from kwire.conformance.wire.cases.share_offsets import describe
from kwire.coordinators.share.dead_letters import origin_of
from kwire.coordinators.share_partitions.led import LedPartition
from kwire.settings.resources import ConfigResourceType
from tests.inside import RawClient, port_of, running_broker, until

pytestmark = pytest.mark.slow

DEAD, ENABLED = "dlq.t", {"errors.deadletterqueue.group.enable": "true"}
NOW_MS = 1_700_000_000_000
SETTINGS = {"group.share.assignment.interval.ms": "0"}


class Reader:
    """A member of a share group that reads topic `t` of a running broker."""

    def __init__(self, broker: Broker, client: RawClient) -> None:
        self.broker = broker
        self._client = client
        self._epoch = 0
        self.topic = CaseTopic("t", broker.image.topics["t"].id, 1)

    async def configure(self, **configs: str) -> None:
        """Set configs of the group."""
        changes = [(name.replace("_", "."), SET, value) for name, value in configs.items()]
        request = alter("g", *changes, kind=ConfigResourceType.GROUP)
        response = await self._client.ask(request, 1, IncrementalAlterConfigsResponse)
        assert response.responses[0].error_code == ErrorCode.NONE

    async def join(self) -> None:
        epoch, topics = 0, ["t"]
        while True:
            request = heartbeat("g", "m", epoch, topics if epoch == 0 else None)
            response = await self._client.ask(request, 1, ShareGroupHeartbeatResponse)
            if response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                continue
            assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
            epoch = response.member_epoch
            if response.assignment is not None and response.assignment.topic_partitions:
                return
            await trio.sleep(0.01)

    async def acquire(self, **fields: int) -> list[tuple[int, int, int]]:
        """Fetch; return the acquired runs: first and last offset, and delivery count."""
        request = fetch("g", "m", self._epoch, None if self._epoch else self.topic, **fields)
        self._epoch += 1
        response = await self._client.ask(request, 2, ShareFetchResponse)
        assert response.error_code == ErrorCode.NONE
        return [
            (run.first_offset, run.last_offset, run.delivery_count)
            for topic in response.responses
            for partition in topic.partitions
            for run in partition.acquired_records
        ]

    async def reject(self, first: int, last: int) -> None:
        request = acknowledge("g", "m", self._epoch, self.topic, (first, last, [REJECT]))
        self._epoch += 1
        response = await self._client.ask(request, 2, ShareAcknowledgeResponse)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE

    async def until_lag(self, lag: int) -> None:
        """Wait until only `lag` records are not in a terminal state."""
        with trio.fail_after(60):
            while True:
                request = describe("g", ("t", [0]))
                response = await self._client.ask(request, 1, DescribeShareGroupOffsetsResponse)
                if response.groups[0].topics[0].partitions[0].lag == lag:
                    return
                await trio.sleep(0.01)

    def letters(self) -> list[int]:
        """The offsets of the dead letters in the topic, in order."""
        partition = self.broker.hosted.get(DEAD, 0)
        if partition is None or not partition.log_end_offset:
            return []
        end = partition.log_end_offset
        region = partition.read(0, 1 << 20, max_offset=end, min_one_batch=True)
        data = b"" if region is None else region.read()
        found = [origin_of(each) for pos, _ in iter_batches(data) for each in records(data, pos)]
        return [origin.offset for origin in found if origin is not None]


async def create(broker: Broker, name: str, configs: Mapping[str, str | None]) -> None:
    await broker.membership.commit(
        creations(broker.settings, [NewTopic(name, 1, 1, [], dict(configs))])
    )


@asynccontextmanager
async def reader_on(directory: Path, settings: Mapping[str, str]) -> AsyncIterator[Reader]:
    """A running broker and a connected reader; the topic has ten records."""
    async with running_broker(directory, {**SETTINGS, **settings}) as broker:
        if "t" not in broker.image.topics:
            await broker.membership.create_internal_topic("__consumer_offsets")
            await create(broker, "t", {})
            partition = broker.hosted.led("t", 0)
            partition.append(build([Record(0, NOW_MS, b"k", b"v")] * 10), now_ms=NOW_MS)
        async with await trio.open_tcp_stream("127.0.0.1", port_of(broker)) as stream:
            yield Reader(broker, RawClient(stream))


async def begin(reader: Reader) -> None:
    """Let the group read from the first record on, with a dead-letter topic."""
    await reader.configure(
        share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=DEAD
    )
    await reader.join()
    assert await reader.acquire() == [(0, 9, 1)]


async def test_rejected_records_are_in_the_dead_letter_topic(tmp_path: Path) -> None:
    async with reader_on(tmp_path, {}) as reader:
        await create(reader.broker, DEAD, ENABLED)
        await begin(reader)
        await reader.reject(0, 3)
        await reader.reject(5, 5)
        await reader.until_lag(5)
        assert reader.letters() == [0, 1, 2, 3, 5]


async def test_missing_topic_is_created_with_its_configs(tmp_path: Path) -> None:
    settings = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
    async with reader_on(tmp_path, settings) as reader:
        await begin(reader)
        await reader.reject(0, 0)
        await reader.until_lag(9)
        assert reader.letters() == [0]
        assert reader.broker.image.configs_of(ConfigResourceType.TOPIC, DEAD) == {
            **ENABLED,
            "message.timestamp.type": "CreateTime",
        }


async def test_records_are_archived_without_a_topic(tmp_path: Path) -> None:
    async with reader_on(tmp_path, {}) as reader:
        await begin(reader)
        await reader.reject(0, 0)
        await reader.until_lag(9)
        assert reader.letters() == []


@pytest.mark.parametrize("written", [True, False])
async def test_restarted_broker_writes_only_the_dead_letters_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """The broker ends after it has stored that it writes dead letters, or after it has."""
    async with reader_on(tmp_path, {}) as reader:
        await create(reader.broker, DEAD, ENABLED)
        await begin(reader)
        await reader.reject(0, 1)
        await reader.until_lag(8)
        with monkeypatch.context() as patch:
            method = "_archive" if written else "_send"
            patch.setattr(LedPartition, method, lambda self, letters, **_: None)
            await reader.reject(4, 5)
            if written:
                await until(lambda: reader.letters() == [0, 1, 4, 5])
    async with reader_on(tmp_path, {}) as reader:
        await reader.join()
        assert await reader.acquire() == [(2, 3, 2), (6, 9, 2)], "they were released at the end"
        await reader.until_lag(6)
        assert reader.letters() == [0, 1, 4, 5]
