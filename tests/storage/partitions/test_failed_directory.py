"""One of several log.dirs fails while clients are at work."""

from __future__ import annotations

import errno
from pathlib import Path

import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.image import NO_LEADER
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
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
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.inside import (
    PATIENCE_S,
    RawClient,
    is_waited_for,
    running_broker,
    until,
)

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


async def test_failed_directory_answers_its_waiting_fetches_alone(
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
            broker.hosted.by_topic[TOPIC].values(), key=lambda each: each.log.dir.parent.name
        )
        await reader.send(fetch(lost.index), 11)
        await until(lambda: is_waited_for(broker, TOPIC, lost.index))
        directory = next(d for d in broker.logs.online_dirs if d.path == lost.log.dir.parent)
        committed = trio.Event()
        broker.node.store.watch(lambda image, delta: committed.set())
        broker.logs.dirs.dir_failed(directory, OSError(errno.EIO, "Input/output error"))
        with trio.fail_after(PATIENCE_S):
            _, reply = await reader.receive(FetchResponse, 11)
        error = reply.responses[0].partitions[0].error_code
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        refused = await writer.ask(produce(lost.index), 7, ProduceResponse)
        answer = refused.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        written = await writer.ask(produce(kept.index), 7, ProduceResponse)
        assert written.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        with trio.fail_after(PATIENCE_S):
            await committed.wait()
        refused = await writer.ask(produce(lost.index), 7, ProduceResponse)
        answer = refused.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "also without a leader"
        assert await metadata_of(writer) == {
            kept.index: (ErrorCode.NONE, broker.node_id, 0, []),
            lost.index: (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, 1, [broker.node_id]),
        }


async def test_topic_with_offline_partitions_gets_more_partitions(tmp_path: Path) -> None:
    settings = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_broker(tmp_path, settings) as broker:
        client = await RawClient.connect(broker)
        topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
        await client.ask(CreateTopicsRequest([topic], 5000), 5, CreateTopicsResponse)
        lost = broker.hosted.by_topic[TOPIC][1]
        directory = next(d for d in broker.logs.online_dirs if d.path == lost.log.dir.parent)
        broker.logs.dirs.dir_failed(directory, OSError(errno.EIO, "Input/output error"))
        await until(lambda: broker.image.topics[TOPIC].partitions[1].leader == NO_LEADER)
        request = CreatePartitionsRequest([CreatePartitionsTopic(TOPIC, 3, None)], 5000)
        reply = await client.ask(request, 3, CreatePartitionsResponse)
        assert [each.error_code for each in reply.results] == [ErrorCode.NONE]
        assert broker.hosted.by_topic[TOPIC][2].leader == broker.node_id


async def metadata_of(client: RawClient) -> dict[int, tuple[int, int, int, list[int]]]:
    """Partition -> error, leader, leader epoch and offline replicas, of the Metadata response."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    reply = await client.ask(request, 7, MetadataResponse)
    return {
        each.partition_index: (
            each.error_code,
            each.leader_id,
            each.leader_epoch,
            each.offline_replicas,
        )
        for each in reply.topics[0].partitions
    }


async def test_partitions_of_a_directory_missing_at_start_have_no_leader(tmp_path: Path) -> None:
    """As in Apache Kafka 4.3.1, the error is that of a former leader."""
    away, kept_aside = tmp_path / "b", tmp_path / "aside"
    settings = {"log.dirs": f"{tmp_path / 'a'},{away}"}
    async with running_broker(tmp_path, settings) as broker:
        client = await RawClient.connect(broker)
        topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
        await client.ask(
            CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5, CreateTopicsResponse
        )
        lost = next(i for i, p in broker.hosted.by_topic[TOPIC].items() if p.log.dir.parent == away)
        await client.ask(produce(lost), 7, ProduceResponse)
        node = broker.node_id
    away.rename(kept_aside)
    away.write_text("not a folder")
    async with running_broker(tmp_path, settings) as broker:
        client = await RawClient.connect(broker)
        gone = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, 1, [node]
        assert await metadata_of(client) == {lost: gone, 1 - lost: (ErrorCode.NONE, node, 0, [])}
        for version in (7, 12):
            refused = await client.ask(produce(lost), version, ProduceResponse)
            answer = refused.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        reply = await client.ask(fetch(lost), 11, FetchResponse)
        data = reply.responses[0].partitions[0]
        assert (data.error_code, data.high_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        topics = [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(lost, -1, -1)])]
        offsets = await client.ask(
            ListOffsetsRequest(replica_id=-1, topics=topics), 5, ListOffsetsResponse
        )
        found = offsets.topics[0].partitions[0].error_code
        assert found == ErrorCode.NOT_LEADER_OR_FOLLOWER
    away.unlink()
    kept_aside.rename(away)
    async with running_broker(tmp_path, settings) as broker:
        client = await RawClient.connect(broker)
        back: tuple[int, int, int, list[int]] = (ErrorCode.NONE, node, 2, [])
        assert await metadata_of(client) == {lost: back, 1 - lost: (ErrorCode.NONE, node, 0, [])}
        answered = await client.ask(produce(lost), 7, ProduceResponse)
        answer = answered.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
