"""Requests that several scenarios send, beside those of the wire cases, and reads of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwire.codecs.batches import BatchHeader, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import CaseTopic, NotReady
from kwire.conformance.wire.cases.build import batch, fetch, produce

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = 2, 4, 32
TIMEOUT_MS = 10_000


def list_offsets(
    topic: CaseTopic, *timestamps: int, partition: int = 0, epoch: int = -1
) -> ListOffsetsRequest:
    """Return a request for the offsets of one partition, one for each timestamp."""
    partitions = [ListOffsetsPartition(partition, epoch, timestamp) for timestamp in timestamps]
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic.name, partitions)], TIMEOUT_MS)


def delete_records(topic: CaseTopic, *offsets: int, partition: int = 0) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition, offset) for offset in offsets]
    return DeleteRecordsRequest([DeleteRecordsTopic(topic.name, partitions)], TIMEOUT_MS)


def alter(
    name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, validate: bool = False
) -> IncrementalAlterConfigsRequest:
    """Return a request with changes of one resource; a change is (config, operation, value)."""
    configs = [AlterableConfig(*change) for change in changes]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)], validate)


def configure(stage: ScenarioStage, topic: CaseTopic, **settings: str) -> None:
    """Set configs of a topic; underscores in names stand for dots. The response is compared."""
    changes = [(name.replace("_", "."), SET, value) for name, value in settings.items()]
    stage.send(alter(topic.name, *changes))
    stage.await_controller()


def create_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    validate: bool = False,
    **settings: str,
) -> CreateTopicsRequest:
    """Return a CreateTopics request; `_` in the name of a setting stands for `.`."""
    configs = [CreatableTopicConfig(k.replace("_", "."), v) for k, v in settings.items()]
    topic = CreatableTopic(name, partitions, replicas, [], configs)
    return CreateTopicsRequest([topic], TIMEOUT_MS, validate)


def delete_topic(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest([DeleteTopicState(name)], [], TIMEOUT_MS)


def add_partitions(
    name: str, count: int, brokers: Sequence[int] | None = None, *, validate: bool = False
) -> CreatePartitionsRequest:
    """Return a request to grow a topic to `count` partitions; `brokers` has the replica of each new
    one."""
    assignments = (
        None if brokers is None else [CreatePartitionsAssignment([broker]) for broker in brokers]
    )
    topic = CreatePartitionsTopic(name, count, assignments)
    return CreatePartitionsRequest([topic], TIMEOUT_MS, validate)


def offset_fetch(
    group_id: str, topic: CaseTopic | None, *partitions: int, stable: bool = False
) -> OffsetFetchRequest:
    """Return a request for the committed offsets of one group; without a topic, for all of them."""
    topics = None
    if topic is not None:
        topics = [OffsetFetchRequestTopics(topic.name, topic.id, list(partitions))]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id, topics=topics)], require_stable=stable
    )


def one_of_session(session_id: int, epoch: int, request: FetchRequest) -> FetchRequest:
    """Return the same request as part of a fetch session."""
    request.session_id, request.session_epoch = session_id, epoch
    return request


# Idempotent producers


def producer(stage: ScenarioStage) -> tuple[int, int]:
    """Return a new producer id and its epoch; the id is never 0, which looks like no id.

    Right after its start a broker may still be fetching its first block of ids.
    """
    while True:
        reply = stage.ask(InitProducerIdRequest(None, 60_000))
        if reply.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            stage.pause()
        elif reply.error_code:
            raise NotReady(f"InitProducerId: {ErrorCode(reply.error_code).name}")
        elif reply.producer_id > 0:
            return reply.producer_id, reply.producer_epoch


def send_sequence(
    stage: ScenarioStage,
    topic: CaseTopic,
    of: tuple[int, int],
    sequence: int,
    count: int = 1,
    **more: Any,  # noqa: ANN401 - produce's
) -> None:
    """Send an idempotent batch; the response is compared."""
    records = batch(
        stage, *[b"v"] * count, producer_id=of[0], producer_epoch=of[1], base_sequence=sequence
    )
    stage.send(produce(topic, records, acks=-1, **more))


# Reading


def read(stage: ScenarioStage, topic: CaseTopic, offset: int = 0, partition: int = 0) -> bytes:
    """Return the bytes of the partition from `offset` on; raise NotReady after an error."""
    reply = stage.ask(fetch(topic, offset, partition=partition))
    partition_data = reply.responses[0].partitions[0]
    if partition_data.error_code:
        raise NotReady(f"fetch from {topic.name}: {ErrorCode(partition_data.error_code).name}")
    return bytes(partition_data.records or b"")


def headers(data: bytes) -> list[BatchHeader]:
    """Return the headers of the complete batches in `data`."""
    return [header for _, header in iter_batches(data)]


def offset_of(stage: ScenarioStage, topic: CaseTopic, timestamp: int, partition: int = 0) -> int:
    """Return the offset for a timestamp, or -1 if there is none."""
    reply = stage.ask(list_offsets(topic, timestamp, partition=partition))
    offset: int = reply.topics[0].partitions[0].offset
    return offset
