"""Transactions as readers see them: stable offsets, aborted batches, committed offsets."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.codecs.batches import iter_batches, records
from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitValue
from kwire.codecs.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.conformance.behaviour.asking import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    TIMEOUT_MS,
    delete_records,
    offset_fetch,
    offset_of,
    one_of_session,
    read,
)
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.scenarios.offsets_topic import OFFSETS_TOPIC, java_hash
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import Topic
from kwire.conformance.wire.cases.build import batch, commit, fetch, fill
from kwire.conformance.wire.cases.txn import Producer, completed, ended, initialized
from kwire.conformance.wire.cases.txn_data import (
    add_group,
    marker,
    txn_batch,
    txn_commit,
    txn_produce,
    write_markers,
    written,
)

scenario = Scenarios("transactions")

UNCOMMITTED, COMMITTED = 0, 1
OFFSET = "offset"
SMALL_SEGMENT = "1048576"
"""The smallest segment.bytes that Apache Kafka 4 takes."""


# -- reading


def look(stage: ScenarioStage, topic: Topic, *offsets: int) -> None:
    """All that consumers of both kinds are told, from each offset on, and who writes there."""
    for isolation in (UNCOMMITTED, COMMITTED):
        for offset in offsets or (0,):
            stage.send(fetch(topic, offset, isolation_level=isolation))
        stage.send(listed(topic, LATEST, isolation))
    stage.send(DescribeProducersRequest([TopicRequest(topic.name, [0])]))


def listed(topic: Topic, timestamp: int, isolation: int) -> ListOffsetsRequest:
    place = ListOffsetsPartition(0, -1, timestamp)
    return ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic.name, [place])], TIMEOUT_MS)


def crossed(stage: ScenarioStage, topic: Topic) -> Iterator[int]:
    """Three producers' transactions and plain records across each other, step by step."""
    one, two, three = (initialized(stage, suffix) for suffix in ("one", "two", "three"))
    written(stage, one, topic, 0, b"1a", b"1b")
    yield 1
    fill(stage, topic, batch(stage, b"plain"))
    yield 2
    written(stage, two, topic, 0, b"2a")
    yield 3
    written(stage, one, topic, 2, b"1c")
    yield 4
    ended(stage, two, commit=False)
    yield 5
    written(stage, three, topic, 0, b"3a", b"3b")
    yield 6
    ended(stage, one)
    yield 7
    written(stage, two, topic, 1, b"2b")
    yield 8
    ended(stage, three, commit=False)
    yield 9
    ended(stage, two)
    yield 10


@scenario(30)
def stable_offset(stage: ScenarioStage) -> None:
    """Trap 30: read_committed ends at the first open transaction and knows who aborted."""
    topic = stage.topic()
    for step in crossed(stage, topic):
        stage.note("step", step)
        look(stage, topic, 0)


@scenario(30)
def aborted_from_each_offset(stage: ScenarioStage) -> None:
    """Trap 30: each reader is told of the aborted transactions that it meets, in their order."""
    topic = stage.topic()
    for _ in crossed(stage, topic):
        pass
    end = offset_of(stage, topic, LATEST)
    for offset in range(end + 2):
        stage.send(fetch(topic, offset, isolation_level=COMMITTED))
    for size in (1, 100, 200, 400):
        request = fetch(topic, 0, isolation_level=COMMITTED, partition_max_bytes=size)
        stage.send(request)


@scenario(31)
def uncommitted_see_all(stage: ScenarioStage) -> None:
    """Trap 31: read_uncommitted shows aborted records and open ones, without a list of them."""
    topic = stage.topic()
    for _ in crossed(stage, topic):
        stage.send(fetch(topic, 0, isolation_level=UNCOMMITTED))


@scenario(30)
def times_below_the_stable_offset(stage: ScenarioStage) -> None:
    """Trap 30: ListOffsets of read_committed finds nothing at or behind the stable offset."""
    topic = stage.topic()
    first_ms = stage.now_ms - 1000
    for _ in crossed(stage, topic):
        for isolation in (UNCOMMITTED, COMMITTED):
            for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, 0, first_ms, first_ms + 1):
                if timestamp == MAX_TIMESTAMP and topic_has_markers(stage, topic):
                    continue  # theirs is the broker's time
                stage.send(listed(topic, timestamp, isolation))


def topic_has_markers(stage: ScenarioStage, topic: Topic) -> bool:
    return any(header.is_control for _, header in iter_batches(read(stage, topic)))


@scenario(30)
def aborted_over_segments(stage: ScenarioStage) -> None:
    """Trap 30: transactions over several segments, aborted and committed."""
    topic = stage.topic(configs={"segment.bytes": SMALL_SEGMENT})
    value = bytes(600_000)
    one, two = (initialized(stage, suffix) for suffix in ("one", "two"))
    for sequence in range(3):
        written(stage, one, topic, sequence, value)
        written(stage, two, topic, sequence, value)
    ended(stage, one, commit=False)
    written(stage, two, topic, 3, value)
    ended(stage, two, commit=False)
    fill(stage, topic, batch(stage, b"end"))
    for offset in range(offset_of(stage, topic, LATEST) + 1):
        for size in (1, 1 << 20):
            request = fetch(topic, offset, isolation_level=COMMITTED, partition_max_bytes=size)
            found = stage.ask(request).responses[0].partitions[0]
            firsts = [one.first_offset for one in found.aborted_transactions or []]
            stage.note(f"from {offset}, {size} bytes", [len(found.records or b""), list(firsts)])


@scenario(30)
def waiting_for_the_end(stage: ScenarioStage) -> None:
    """Trap 30: a parked read_committed fetch is answered by the marker, not by the records."""
    topic, producer = stage.topic(), initialized(stage)
    waits = fetch(topic, 0, isolation_level=COMMITTED, max_wait_ms=8000, min_bytes=1)
    stage.begin(waits, on="reader")
    written(stage, producer, topic)
    ended(stage, producer)
    with stage.lasts("the answer", 0, 4):
        stage.end("reader")
    written(stage, producer, topic, 1)
    with stage.lasts("nothing to read", 0.25, 4):
        stage.send(
            fetch(topic, 2, isolation_level=COMMITTED, max_wait_ms=300, min_bytes=1), on="reader"
        )


@scenario(30)
def sessions_are_told_of_the_end(stage: ScenarioStage) -> None:
    """Trap 30: a fetch session of a read_committed consumer, over the end of a transaction."""
    topic, producer = stage.topic(), initialized(stage)
    written(stage, producer, topic)
    first = stage.ask(one_of_session(0, 0, fetch(topic, 0, isolation_level=COMMITTED)))
    for epoch in (1, 2):
        request = fetch(topic, 0, isolation_level=COMMITTED)
        stage.send(one_of_session(first.session_id, epoch, request))
        if epoch == 1:
            ended(stage, producer, commit=False)


@scenario()
def log_starts_within_a_transaction(stage: ScenarioStage) -> None:
    """DeleteRecords beyond the first record of a transaction that is open, then ended."""
    topic, producer = stage.topic(), initialized(stage)
    for sequence in range(3):  # within a batch Apache Kafka goes back to its first offset
        written(stage, producer, topic, sequence)
    for offset in (1, 3):
        stage.send(delete_records(topic, offset))
        look(stage, topic, offset)
    written(stage, producer, topic, 3)
    look(stage, topic, 3)
    ended(stage, producer, commit=False)
    look(stage, topic, 3)


@scenario(27)
def duplicates_within_a_transaction(stage: ScenarioStage) -> None:
    """Trap 27: batches that come again, out of order and after the end, of a transaction."""
    topic, producer = stage.topic(), initialized(stage)
    name = producer.transactional_id
    for sequence in (0, 1, 0, 1, 3, 2, 2):
        stage.send(txn_produce(name, topic, {0: txn_batch(stage, producer, sequence)}))
    ended(stage, producer)
    for sequence in (2, 0, 4, 3):
        stage.send(txn_produce(name, topic, {0: txn_batch(stage, producer, sequence)}))
    look(stage, topic)


@scenario()
def hanging_transaction(stage: ScenarioStage) -> None:
    """A hanging transaction is ended by an admin's markers (KIP-664), and its producer goes on."""
    topic, producer = stage.topic(), initialized(stage)
    written(stage, producer, topic)
    look(stage, topic)
    stage.send(write_markers(marker(producer, {topic.name: [0]}, commit=False)))
    look(stage, topic)
    written(stage, producer, topic, 1)
    ended(stage, producer)
    look(stage, topic)


@scenario()
def fenced_by_a_new_start(stage: ScenarioStage) -> None:
    """A producer that starts anew aborts what its predecessor has left open, and fences it."""
    topic, old = stage.topic(), initialized(stage)
    written(stage, old, topic)
    new = initialized(stage)
    completed(stage, new)
    look(stage, topic)
    for producer in (old, new):
        records = txn_batch(stage, producer, 0 if producer is new else 1)
        stage.send(txn_produce(producer.transactional_id, topic, {0: records}))
    look(stage, topic)


# -- offsets


@scenario(39)
def offsets_of_a_transaction(stage: ScenarioStage) -> None:
    """Trap 39: requireStable tells who must wait; the offsets count from the commit on."""
    topic, group = stage.topic(partitions=3), stage.name("g")
    stage.send(commit(group, topic, 1))
    producer = initialized(stage)
    for committing in (True, False):
        add_group(stage, producer, group)
        for partition, offset in ((0, 10 + committing), (1, 20 + committing)):
            stage.send(txn_commit(producer, group, topic, offset, partition=partition))
        told(stage, group, topic)
        ended(stage, producer, commit=committing)
        told(stage, group, topic)


def told(stage: ScenarioStage, group: str, topic: Topic) -> None:
    for stable in (False, True):
        stage.send(offset_fetch(group, topic, 0, 1, 2, stable=stable))
        stage.send(offset_fetch(group, None, stable=stable))


@scenario(41)
def written_by_transactions(stage: ScenarioStage) -> None:
    """Trap 41: what a transaction writes to __consumer_offsets, and its marker."""
    topic, group, producer = stage.topic(), stage.name("g"), initialized(stage)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
    known = stage.ask(asked).topics[0]
    offsets = Topic(OFFSETS_TOPIC, known.topic_id, len(known.partitions))
    partition = (java_hash(group) & 0x7FFFFFFF) % offsets.partitions
    start = offset_of(stage, offsets, LATEST, partition)
    add_group(stage, producer, group)
    stage.send(txn_commit(producer, group, topic, 7, metadata="note"))
    ended(stage, producer)
    for kind, key, value in _of_producer(read(stage, offsets, start, partition), producer):
        stage.note(kind, key.replace(stage.prefix.encode(), b"~").hex())
        if kind != OFFSET:
            stage.note("value", value.hex())
            continue
        version = int.from_bytes(value[:2])
        found = OffsetCommitValue.decode(value, version, 2)
        stage.note("offset", [version, found.offset, found.leader_epoch, found.metadata])
        stage.note("expires, topic id", [found.expire_timestamp, found.topic_id.hex()])


def _of_producer(data: bytes, producer: Producer) -> Iterator[tuple[str, bytes, bytes]]:
    """Kind of batch, key and value of each record of the producer's."""
    for position, header in iter_batches(data):
        if header.producer_id != producer.producer_id:
            continue
        assert header.is_transactional, "it is part of a transaction"
        kind = f"control of sequence {header.base_sequence}" if header.is_control else OFFSET
        for record in records(data, position):
            yield kind, bytes(record.key or b""), bytes(record.value or b"")
