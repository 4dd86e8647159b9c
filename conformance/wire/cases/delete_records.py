"""Cases of DeleteRecords, which moves the start of a partition."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import batch, fetch, fill, filled_topic, unknown_topic
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DELETE_RECORDS)


def access_request(version: int, topic_id: bytes) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(INDEX, 0)
    return DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [partition])], 1000)


def delete(topic: CaseTopic, *offsets: int, partition: int = 0) -> DeleteRecordsRequest:
    """Delete the records of one partition before each offset."""
    entries = [DeleteRecordsPartition(partition, offset) for offset in offsets]
    return DeleteRecordsRequest([DeleteRecordsTopic(topic.name, entries)], 5000)


@case("forward, back, beyond, all")
def forward(stage: Stage) -> None:
    """The start of a partition moves forward only, and not beyond its end; -1 means the end.

    Each request is followed by a fetch at offset 3, which shows the start of the log.
    """
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a", b"b"), batch(stage, b"c", b"d"))
    for offset in (1, 1, 0, 3, 5, -2, 4, -1):
        stage.send(delete(topic, offset))
        stage.send(fetch(topic, 3))
    for offset in (0, 3, 4):
        stage.send(fetch(topic, offset))


@case("all of them by -1")
def high_watermark(stage: Stage) -> None:
    """Offset -1 deletes all records: of an empty partition, then of two records."""
    topic = stage.topic()
    stage.send(delete(topic, -1))
    fill(stage, topic, batch(stage, b"a", b"b"))
    stage.send(delete(topic, -1))
    stage.send(fetch(topic, 2))


@case("the same partition twice")
def twice(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a", b"b", b"c"))
    stage.send(delete(topic, 1, 2))


@case("a compacted topic")
def compacted(stage: Stage) -> None:
    topic = stage.topic(configs={"cleanup.policy": "compact"})
    fill(stage, topic, batch(stage, b"a", b"b", keyed=True))
    stage.send(delete(topic, 1))


@case("a topic of the coordinators")
def internal(stage: Stage) -> None:
    stage.send(delete(CaseTopic("__consumer_offsets", b"", 50), 0))


@case("several, some of them unknown")
def several(stage: Stage) -> None:
    """One request has an existing partition, a missing partition and a missing topic."""
    topic = stage.topic(partitions=2)
    request = delete(topic, 0)
    request.topics[0].partitions += delete(topic, 0, partition=9).topics[0].partitions
    request.topics += delete(unknown_topic(stage), 0).topics
    stage.send(request)


case.requests(
    {
        "no topics": lambda stage: DeleteRecordsRequest(timeout_ms=1000),
        "no partitions": lambda stage: delete(filled_topic(stage)),
        "unknown topic": lambda stage: delete(unknown_topic(stage), 0),
        "unknown partition": lambda stage: delete(filled_topic(stage), 0, partition=9),
        "negative partition": lambda stage: delete(filled_topic(stage), 0, partition=-1),
    }
)
