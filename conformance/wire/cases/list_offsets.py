"""Cases of ListOffsets: by timestamp and by the special timestamps."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import Compression
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import batch, fill, filled_topic, unknown_topic
from kwire.conformance.wire.cases.describe_configs import TOPIC as TOPIC_CONFIGS
from kwire.conformance.wire.cases.incremental_alter_configs import SET, alter
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.LIST_OFFSETS)


def access_request(version: int, topic_id: bytes) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(INDEX, timestamp=-1)
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, [partition])])


def ask(
    topic: CaseTopic,
    *timestamps: int,
    partition: int = 0,
    epoch: int = -1,
    replica: int = -1,
    isolation: int = 0,
) -> ListOffsetsRequest:
    """Return a request for the offsets of one partition, one for each timestamp."""
    entries = [ListOffsetsPartition(partition, epoch, timestamp) for timestamp in timestamps]
    topics = [ListOffsetsTopic(topic.name, entries)]
    return ListOffsetsRequest(replica, isolation, topics, timeout_ms=1000)


@case("every special timestamp")
def special(stage: Stage) -> None:
    for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100):
        stage.send(ask(filled_topic(stage), timestamp))


@case("every special timestamp of an empty partition")
def special_empty(stage: Stage) -> None:
    for timestamp in (-1, -2, -3, -4, -5, -6, 0):
        stage.send(ask(filled_topic(stage), timestamp, partition=1))


@case("by time")
def by_time(stage: Stage) -> None:
    now = stage.now_ms
    for timestamp in (0, now - 1000, now - 999, now - 998, now - 499, now - 100, now, 2**62):
        stage.send(ask(filled_topic(stage), timestamp))


@case("times out of order")
def disorder(stage: Stage) -> None:
    """Timestamps of batches are out of order: the first offset at or after a timestamp is found.

    -3 asks for the record with the largest timestamp; version 7 introduced it.
    """
    topic = stage.topic()
    for ahead in (50, 10, 70):
        fill(stage, topic, batch(stage, b"a", b"b", first_ms=stage.now_ms - 1000 + ahead))
    for timestamp in (0, 20, 51, 60, 71, 72):
        stage.send(ask(topic, stage.now_ms - 1000 + timestamp))
    if stage.version >= 7:
        stage.send(ask(topic, -3))


@case("records above the limit of decompressed records")
def decompressed_limit(stage: Stage) -> None:
    """The limit is set after the append: a lookup that comes to the third record fails."""
    topic = stage.topic()
    values = (b"a", b"b", b"c" * 500, b"d")
    for ahead in (0, 50):
        codec = Compression.GZIP if ahead == 0 else Compression.NONE
        first_ms = stage.now_ms - 1000 + ahead
        fill(stage, topic, batch(stage, *values, first_ms=first_ms, compression=codec))
    limit = ("max.decompressed.message.bytes", SET, "100")
    stage.ask(alter(TOPIC_CONFIGS, topic.name, limit))
    stage.await_cluster_changes()
    for timestamp in (0, 1, 2, 3, 50, 52, 60):
        stage.send(ask(topic, stage.now_ms - 1000 + timestamp))
    if stage.version >= 7:
        stage.send(ask(topic, -3))


@case("after the start has moved")
def moved(stage: Stage) -> None:
    """After DeleteRecords has moved the start to 2, earlier records are no longer found."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a", b"b", b"c"))
    entries = [DeleteRecordsPartition(0, 2)]
    stage.ask(DeleteRecordsRequest([DeleteRecordsTopic(topic.name, entries)], 5000))
    for timestamp in (-2, -1, 0, stage.now_ms - 1000):
        stage.send(ask(topic, timestamp))


@case("the same partition twice")
def twice(stage: Stage) -> None:
    stage.send(ask(filled_topic(stage), -1, -2))


@case("two topics, one of them unknown")
def mixed(stage: Stage) -> None:
    request = ask(filled_topic(stage), -1)
    request.topics += ask(unknown_topic(stage), -1, partition=3).topics
    stage.send(request)


@case("isolation levels", since=2)
def isolation(stage: Stage) -> None:
    for level in (0, 1, 5):
        stage.send(ask(filled_topic(stage), -1, isolation=level))
        stage.send(ask(filled_topic(stage), -3, isolation=level))


@case("leader epochs", since=4)
def epochs(stage: Stage) -> None:
    for epoch in (-1, 0, 1, 9):
        stage.send(ask(filled_topic(stage), -1, epoch=epoch))


@case("replica ids")
def replicas(stage: Stage) -> None:
    for replica in (-1, -2, -3, 5, stage.broker.node_id):
        stage.send(ask(filled_topic(stage), -1, replica=replica))


case.requests(
    {
        "no topics": lambda stage: ListOffsetsRequest(-1),
        "no partitions": lambda stage: ask(filled_topic(stage)),
        "unknown topic": lambda stage: ask(unknown_topic(stage), -1),
        "unknown partition": lambda stage: ask(filled_topic(stage), -1, partition=9),
        "negative partition": lambda stage: ask(filled_topic(stage), -1, partition=-1),
    }
)
