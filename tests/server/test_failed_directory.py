"""One of several log.dirs fails while clients are at work."""

from __future__ import annotations

import errno
from pathlib import Path

import trio

from kwire.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
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
from tests.server.inside import RawClient, running_broker

TOPIC = "t"


def produce(index: int) -> ProduceRequest:
    records = bytes(build([Record(0, Broker.now_ms(), None, b"value", [])]))
    data = PartitionProduceData(index=index, records=records)
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def fetch(index: int) -> FetchRequest:
    partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )


async def test_its_waiting_fetches_are_told_and_the_other_directory_goes_on(
    tmp_path: Path,
) -> None:
    settings = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_broker(tmp_path, settings) as broker:
        writer, reader = await RawClient.connect(broker), await RawClient.connect(broker)
        topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
        await writer.ask(
            CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5, CreateTopicsResponse
        )
        kept, lost = sorted(
            broker.partitions[TOPIC].values(), key=lambda each: each.log.dir.parent.name
        )
        await reader.send(fetch(lost.index), 11)
        await trio.sleep(0.05)
        directory = next(d for d in broker.logs.online_dirs if d.path == lost.log.dir.parent)
        broker.logs.dir_failed(directory, OSError(errno.EIO, "Input/output error"))
        with trio.fail_after(5):
            _, told = await reader.receive(FetchResponse, 11)
        error = told.responses[0].partitions[0].error_code
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        refused = await writer.ask(produce(lost.index), 7, ProduceResponse)
        answer = refused.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        written = await writer.ask(produce(kept.index), 7, ProduceResponse)
        assert written.responses[0].partition_responses[0].error_code == ErrorCode.NONE
