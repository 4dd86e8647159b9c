"""Produce requests that wait for replicas let later ones pass; the replies keep their order."""

from __future__ import annotations

import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.broker import Broker
from kwire.cluster.metadata.image import PartitionImage
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.server.network.owed import OWED_MAX
from kwire.storage.partitions.partition import Partition
from tests.inside import RawClient, running_broker, until

pytestmark = pytest.mark.skipif(
    not hasattr(select, "epoll"), reason="without epoll each connection waits in its own task"
)

TOPIC = "flights"
OTHER_REPLICA = 77
VERSION = 7
LONG_MS = 600_000


def produce(topic: str = TOPIC, *, acks: int = -1, timeout_ms: int = LONG_MS) -> ProduceRequest:
    records = bytes(build([Record(0, Broker.now_ms(), None, b"value", [])]))
    data = PartitionProduceData(index=0, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


class Stage:
    """A broker that leads a partition with a follower, whose progress the test decides."""

    def __init__(self, broker: Broker, client: RawClient) -> None:
        self.broker, self.client = broker, client

    @property
    def partition(self) -> Partition:
        return self.broker.hosted.by_topic[TOPIC][0]

    async def send(self, *requests: ProduceRequest | ApiVersionsRequest) -> None:
        """Send requests in one write, so that they arrive together."""
        frames = [self.client.frame(each, VERSION if each.API_KEY == 0 else 0) for each in requests]
        await self.client.stream.send_all(b"".join(frames))

    async def appended(self, count: int) -> None:
        await until(lambda: self.partition.log_end_offset >= count)
        assert self.partition.log_end_offset == count

    def replicate(self, offset: int) -> None:
        """The follower has everything before `offset`."""
        self.partition.advance_high_watermark(offset, 0)

    async def reply(self) -> tuple[int, ErrorCode, int]:
        """Correlation id, error and base offset of the next reply, which is Produce's."""
        number, response = await self.client.receive(ProduceResponse, VERSION)
        partition = response.responses[0].partition_responses[0]
        return number, ErrorCode(partition.error_code), partition.base_offset


@asynccontextmanager
async def leading(directory: Path) -> AsyncIterator[Stage]:
    async with running_broker(directory) as broker:
        client = await RawClient.connect(broker)
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        await client.ask(CreateTopicsRequest(topics=[topic]), 5, CreateTopicsResponse)
        client._correlation_id = 0
        stage = Stage(broker, client)
        replicas = (broker.node_id, OTHER_REPLICA)
        stage.partition.follow(PartitionImage(broker.node_id, 1, 1, replicas, replicas))
        yield stage


async def test_later_produces_are_appended_while_earlier_ones_wait_for_replicas(
    tmp_path: Path,
) -> None:
    async with leading(tmp_path) as stage:
        await stage.send(produce(), produce())
        await stage.appended(2)
        await stage.send(produce())
        await stage.appended(3)
        stage.replicate(2)
        assert [await stage.reply(), await stage.reply()] == [
            (1, ErrorCode.NONE, 0),
            (2, ErrorCode.NONE, 1),
        ]
        stage.replicate(3)
        assert await stage.reply() == (3, ErrorCode.NONE, 2)


async def test_reply_that_is_ready_waits_for_those_that_are_owed(tmp_path: Path) -> None:
    async with leading(tmp_path) as stage:
        await stage.send(produce(), produce("unknown"), produce(acks=1), produce(acks=0))
        await stage.appended(3)
        stage.replicate(1)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [await stage.reply() for _ in range(3)] == [
            (1, ErrorCode.NONE, 0),
            (2, unknown, -1),
            (3, ErrorCode.NONE, 1),
        ]


async def test_other_requests_wait_until_no_reply_is_owed(tmp_path: Path) -> None:
    async with leading(tmp_path) as stage:
        await stage.send(produce(), ApiVersionsRequest(), produce())
        await stage.appended(1)
        await trio.testing.wait_all_tasks_blocked()
        assert stage.partition.log_end_offset == 1  # the request between them holds it back
        stage.replicate(1)
        assert await stage.reply() == (1, ErrorCode.NONE, 0)
        frame = await stage.client.receive_frame()
        assert frame is not None
        assert int.from_bytes(frame[:4]) == 2
        await stage.appended(2)
        stage.replicate(2)
        assert await stage.reply() == (3, ErrorCode.NONE, 1)


async def test_connection_is_owed_a_limited_number_of_replies(tmp_path: Path) -> None:
    async with leading(tmp_path) as stage:
        await stage.send(*(produce() for _ in range(OWED_MAX + 2)))
        await stage.appended(OWED_MAX)
        await trio.testing.wait_all_tasks_blocked()
        assert stage.partition.log_end_offset == OWED_MAX
        stage.replicate(OWED_MAX)
        for number in range(OWED_MAX):
            assert await stage.reply() == (number + 1, ErrorCode.NONE, number)
        await stage.appended(OWED_MAX + 2)
        stage.replicate(OWED_MAX + 2)
        for number in range(OWED_MAX, OWED_MAX + 2):
            assert await stage.reply() == (number + 1, ErrorCode.NONE, number)


async def test_owed_reply_times_out_and_later_ones_still_wait(tmp_path: Path) -> None:
    async with leading(tmp_path) as stage:
        await stage.send(produce(timeout_ms=0), produce(timeout_ms=1), produce())
        assert [await stage.reply(), await stage.reply()] == [
            (1, ErrorCode.REQUEST_TIMED_OUT, 0),
            (2, ErrorCode.REQUEST_TIMED_OUT, 1),
        ]
        assert stage.broker.hosted.expired.produces == 2
        stage.replicate(3)
        assert await stage.reply() == (3, ErrorCode.NONE, 2)


async def test_shorter_timeout_behind_a_longer_one_ends_its_wait_in_time(tmp_path: Path) -> None:
    async with leading(tmp_path) as stage:
        await stage.send(produce(), produce(timeout_ms=1))
        await stage.appended(2)
        await trio.sleep(0.05)  # the timeout of the second one passes, or this test shows less
        stage.replicate(1)
        assert await stage.reply() == (1, ErrorCode.NONE, 0)
        assert await stage.reply() == (2, ErrorCode.REQUEST_TIMED_OUT, 1)


async def test_owed_replies_say_that_the_broker_stopped_leading(tmp_path: Path) -> None:
    async with leading(tmp_path) as stage:
        await stage.send(produce(), produce())
        await stage.appended(2)
        stage.partition.release_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert [(await stage.reply())[1] for _ in range(2)] == [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ]


async def test_replies_owed_to_a_client_that_has_gone_disturb_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with leading(tmp_path) as stage:
        await stage.send(produce(), produce())
        await stage.appended(2)
        await stage.client.stream.aclose()
        stage.client = await RawClient.connect(stage.broker)
        await stage.send(produce())
        await stage.appended(3)
        stage.replicate(3)
        assert await stage.reply() == (1, ErrorCode.NONE, 2)
        assert not caplog.records
