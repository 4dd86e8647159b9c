"""Cases of WriteTxnMarkers: all kinds of markers, to existing and unknown partitions."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.txn import CaseProducer, create_producer
from kwire.conformance.wire.cases.txn_data import append_batch, marker, write_markers
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.WRITE_TXN_MARKERS)


def access_request(version: int, topic_id: bytes) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(TOPIC, [INDEX])]
    return WriteTxnMarkersRequest([WritableTxnMarker(1, 0, True, topics, 0)])


OFFSETS_TOPIC = "__consumer_offsets"
VERSIONS_SINCE = 2
LATEST = -1


def _look(stage: Stage, topic: CaseTopic) -> None:
    """Send requests for the partition's producers and its end at each isolation level."""
    everywhere = list(range(topic.partitions))
    stage.send(DescribeProducersRequest([TopicRequest(topic.name, everywhere)]))
    for isolation_level in (0, 1):
        entries = [ListOffsetsPartition(index, -1, LATEST) for index in everywhere]
        stage.send(ListOffsetsRequest(-1, isolation_level, [ListOffsetsTopic(topic.name, entries)]))


def _again(stage: Stage, suffix: str = "txn") -> CaseProducer:
    """Return a producer that has been initialized twice, so that a lower epoch exists."""
    create_producer(stage, suffix)
    return create_producer(stage, suffix)


@case("nothing was written")
def nothing(stage: Stage) -> None:
    """Markers are written for a producer that has no open transaction."""
    topic, producer = stage.topic(), create_producer(stage)
    for commit in (True, False):
        stage.send(write_markers(marker(producer, {topic.name: [0]}, commit=commit)))
        _look(stage, topic)


@case("a transaction that is open")
def open_transaction(stage: Stage) -> None:
    """A marker ends an open transaction, once by a commit and once by an abort."""
    topic, producer = stage.topic(partitions=2), create_producer(stage)
    for sequence, commit in enumerate((True, False)):
        append_batch(stage, producer, topic, sequence)
        _look(stage, topic)
        stage.send(write_markers(marker(producer, {topic.name: [1, 0]}, commit=commit)))
        _look(stage, topic)


@case("epochs of the producer")
def epochs(stage: Stage) -> None:
    """Markers have the producer epoch of the transaction, older and newer ones."""
    topic, producer = stage.topic(), _again(stage)
    append_batch(stage, producer, topic)
    for by in (-1, 0, 1, 0, 5, 4):
        stage.send(write_markers(marker(producer.other(epoch=by), {topic.name: [0]})))
        _look(stage, topic)


@case("epochs of the coordinator")
def coordinator_epochs(stage: Stage) -> None:
    """Markers have equal, older and newer coordinator epochs; older ones are fenced."""
    topic, producer = stage.topic(), create_producer(stage)
    for epoch in (3, 3, 2, 4, -1, 0, 5):
        one = marker(producer, {topic.name: [0]}, coordinator_epoch=epoch)
        stage.send(write_markers(one))
        _look(stage, topic)


@case("both epochs are old")
def both_old(stage: Stage) -> None:
    """A marker has an old producer epoch and an old coordinator epoch: which error wins."""
    topic, producer = stage.topic(), _again(stage)
    stage.send(write_markers(marker(producer, {topic.name: [0]}, coordinator_epoch=7)))
    old = producer.other(epoch=-1)
    stage.send(write_markers(marker(old, {topic.name: [0]}, coordinator_epoch=6)))
    _look(stage, topic)


@case("versions of the transaction", since=VERSIONS_SINCE)
def versions(stage: Stage) -> None:
    """From version 2 on, a marker with the epoch of the open transaction is too old to end it."""
    topic, producer = stage.topic(), _again(stage)
    for sequence, version in enumerate((0, 1, 2, 3, 127, -1, -128)):
        append_batch(stage, producer, topic, sequence)
        stage.send(write_markers(marker(producer, {topic.name: [0]}, version=version)))
        _look(stage, topic)
        stage.send(write_markers(marker(producer, {topic.name: [0]})))
        stage.send(write_markers(marker(producer, {topic.name: [0]}, version=version)))
    entries = {topic.name: [0, 9], stage.name("none"): [0]}
    stage.send(write_markers(marker(producer, entries, version=-1)))
    for by in (1, 0, -1):
        one = marker(producer.other(epoch=by), {topic.name: [0]}, version=2)
        stage.send(write_markers(one))
    _look(stage, topic)


@case("topics and partitions that are not there")
def unknown(stage: Stage) -> None:
    """Markers for missing partitions and topics, in one request with existing ones."""
    topic, producer = stage.topic(partitions=2), create_producer(stage)
    entries = {topic.name: [0, 2, 1, -1], stage.name("none"): [0], "": [0], "a b": [3]}
    stage.send(write_markers(marker(producer, entries)))
    stage.send(write_markers(marker(producer, {topic.name: [9]})))
    _look(stage, topic)


@case("many markers")
def many(stage: Stage) -> None:
    """A request has markers of two producers, for existing and missing partitions."""
    topic = stage.topic(partitions=3)
    one, other = create_producer(stage, "one"), create_producer(stage, "other")
    stage.send(
        write_markers(
            marker(one, {topic.name: [0]}),
            marker(other, {topic.name: [0, 7]}, commit=False),
            marker(one, {topic.name: [1, 2]}, commit=False),
            marker(other, {topic.name: [1]}, coordinator_epoch=3),
        )
    )
    _look(stage, topic)


@case("a marker twice")
def twice(stage: Stage) -> None:
    """One request has two markers of a producer for a partition, an abort and a commit."""
    topic, producer = stage.topic(), create_producer(stage)
    append_batch(stage, producer, topic)
    first = marker(producer, {topic.name: [0]}, commit=False)
    stage.send(write_markers(first, marker(producer, {topic.name: [0]})))
    _look(stage, topic)


@case("a topic twice")
def topic_twice(stage: Stage) -> None:
    """One marker names a topic in two entries."""
    topic, producer = stage.topic(partitions=2), create_producer(stage)
    one = marker(producer, {topic.name: [0]})
    one.topics.append(WritableTxnMarkerTopic(topic.name, [1]))
    stage.send(write_markers(one))
    _look(stage, topic)


@case("a partition twice")
def partition_twice(stage: Stage) -> None:
    topic, producer = stage.topic(), create_producer(stage)
    stage.send(write_markers(marker(producer, {topic.name: [0, 0]})))


@case("producers that cannot be")
def absurd(stage: Stage) -> None:
    """Markers have producer ids and epochs that no producer has."""
    topic = stage.topic()
    for producer_id, epoch in ((-1, 0), (-1, -1), (77, -1), (77, -5), (1 << 60, 32_767)):
        producer = CaseProducer("", producer_id, epoch)
        stage.send(write_markers(marker(producer, {topic.name: [0], "none": [0]})))
        _look(stage, topic)


@case("the coordinators' own topics")
def internal(stage: Stage) -> None:
    """Markers are written to the offsets topic, with older and newer coordinator epochs.

    The partition is derived from the case's prefix; 50 and -1 are no partitions of the topic.
    """
    producer = _again(stage)
    partitions = [sum(stage.prefix.encode()) % 50]
    for by, epoch in ((0, 3), (0, 3), (-1, 3), (0, 2), (0, 4), (1, 4)):
        entries = {OFFSETS_TOPIC: partitions}
        one = marker(producer.other(epoch=by), entries, coordinator_epoch=epoch)
        stage.send(write_markers(one))
    stage.send(write_markers(marker(producer.other(epoch=1), {OFFSETS_TOPIC: [50, -1]})))


case.requests(
    {
        "no markers": lambda stage: write_markers(),
        "no topics": lambda stage: write_markers(marker(create_producer(stage), {})),
        "no partitions": lambda stage: write_markers(
            marker(create_producer(stage), {stage.topic().name: []})
        ),
    }
)
