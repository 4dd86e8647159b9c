"""Scenarios of transactions: last stable offsets, aborted batches, committed offsets."""

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
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import batch, commit, fetch, fill
from kwire.conformance.wire.cases.txn import (
    CaseProducer,
    create_producer,
    end_transaction,
    wait_until_ended,
)
from kwire.conformance.wire.cases.txn_data import (
    add_group,
    append_batch,
    marker,
    txn_batch,
    txn_commit,
    txn_produce,
    write_markers,
)

scenario = Scenarios("transactions")

UNCOMMITTED, COMMITTED = 0, 1
OFFSET = "offset"
SMALL_SEGMENT = "1048576"
"""The smallest segment.bytes that Apache Kafka 4 accepts."""


# Reading


def look(stage: ScenarioStage, topic: CaseTopic, *offsets: int) -> None:
    """Send the requests of consumers with both isolation levels, from each offset, and list the
    producers."""
    for isolation in (UNCOMMITTED, COMMITTED):
        for offset in offsets or (0,):
            stage.send(fetch(topic, offset, isolation_level=isolation))
        stage.send(listed(topic, LATEST, isolation))
    stage.send(DescribeProducersRequest([TopicRequest(topic.name, [0])]))


def listed(topic: CaseTopic, timestamp: int, isolation: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(0, -1, timestamp)
    topics = [ListOffsetsTopic(topic.name, [partition])]
    return ListOffsetsRequest(-1, isolation, topics, TIMEOUT_MS)


def crossed(stage: ScenarioStage, topic: CaseTopic) -> Iterator[int]:
    """Interleave the transactions of three producers with plain records; yields after each step."""
    one, two, three = (create_producer(stage, suffix) for suffix in ("one", "two", "three"))
    append_batch(stage, one, topic, 0, b"1a", b"1b")
    yield 1
    fill(stage, topic, batch(stage, b"plain"))
    yield 2
    append_batch(stage, two, topic, 0, b"2a")
    yield 3
    append_batch(stage, one, topic, 2, b"1c")
    yield 4
    end_transaction(stage, two, commit=False)
    yield 5
    append_batch(stage, three, topic, 0, b"3a", b"3b")
    yield 6
    end_transaction(stage, one)
    yield 7
    append_batch(stage, two, topic, 1, b"2b")
    yield 8
    end_transaction(stage, three, commit=False)
    yield 9
    end_transaction(stage, two)
    yield 10


@scenario()
def stable_offset(stage: ScenarioStage) -> None:
    """read_committed ends at the first open transaction and lists aborted ones."""
    topic = stage.topic()
    for step in crossed(stage, topic):
        stage.note("step", step)
        look(stage, topic, 0)


@scenario()
def aborted_from_each_offset(stage: ScenarioStage) -> None:
    """A read_committed fetch lists the aborted transactions in its range, in order."""
    topic = stage.topic()
    for _ in crossed(stage, topic):
        pass
    end = offset_of(stage, topic, LATEST)
    for offset in range(end + 2):
        stage.send(fetch(topic, offset, isolation_level=COMMITTED))
    for size in (1, 100, 200, 400):
        request = fetch(topic, 0, isolation_level=COMMITTED, partition_max_bytes=size)
        stage.send(request)


@scenario()
def uncommitted_see_all(stage: ScenarioStage) -> None:
    """read_uncommitted returns aborted and open transactions, without a list of them."""
    topic = stage.topic()
    for _ in crossed(stage, topic):
        stage.send(fetch(topic, 0, isolation_level=UNCOMMITTED))


@scenario()
def times_below_the_stable_offset(stage: ScenarioStage) -> None:
    """ListOffsets with read_committed finds nothing at or after the last stable offset."""
    topic = stage.topic()
    first_ms = stage.now_ms - 1000
    for _ in crossed(stage, topic):
        for isolation in (UNCOMMITTED, COMMITTED):
            for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, 0, first_ms, first_ms + 1):
                if timestamp == MAX_TIMESTAMP and topic_has_markers(stage, topic):
                    continue  # the time of a marker is the broker's
                stage.send(listed(topic, timestamp, isolation))


def topic_has_markers(stage: ScenarioStage, topic: CaseTopic) -> bool:
    return any(header.is_control for _, header in iter_batches(read(stage, topic)))


@scenario()
def aborted_over_segments(stage: ScenarioStage) -> None:
    """Aborted transactions over several segments."""
    topic = stage.topic(configs={"segment.bytes": SMALL_SEGMENT})
    value = bytes(600_000)
    one, two = (create_producer(stage, suffix) for suffix in ("one", "two"))
    for sequence in range(3):
        append_batch(stage, one, topic, sequence, value)
        append_batch(stage, two, topic, sequence, value)
    end_transaction(stage, one, commit=False)
    append_batch(stage, two, topic, 3, value)
    end_transaction(stage, two, commit=False)
    fill(stage, topic, batch(stage, b"end"))
    for offset in range(offset_of(stage, topic, LATEST) + 1):
        for size in (1, 1 << 20):
            request = fetch(topic, offset, isolation_level=COMMITTED, partition_max_bytes=size)
            partition_data = stage.ask(request).responses[0].partitions[0]
            aborted = partition_data.aborted_transactions or []
            firsts = [transaction.first_offset for transaction in aborted]
            stage.note(
                f"from {offset}, {size} bytes", [len(partition_data.records or b""), list(firsts)]
            )


@scenario()
def waiting_for_the_end(stage: ScenarioStage) -> None:
    """A waiting read_committed fetch ends when the marker is written, not with the records."""
    topic, producer = stage.topic(), create_producer(stage)
    waits = fetch(topic, 0, isolation_level=COMMITTED, max_wait_ms=8000, min_bytes=1)
    stage.begin(waits, on="reader")
    append_batch(stage, producer, topic)
    end_transaction(stage, producer)
    with stage.lasts("the answer", 0, 4):
        stage.end("reader")
    append_batch(stage, producer, topic, 1)
    with stage.lasts("nothing to read", 0.25, 4):
        stage.send(
            fetch(topic, 2, isolation_level=COMMITTED, max_wait_ms=300, min_bytes=1), on="reader"
        )


@scenario()
def sessions_are_told_of_the_end(stage: ScenarioStage) -> None:
    """A fetch session of a read_committed consumer during and after a transaction."""
    topic, producer = stage.topic(), create_producer(stage)
    append_batch(stage, producer, topic)
    first = stage.ask(one_of_session(0, 0, fetch(topic, 0, isolation_level=COMMITTED)))
    for epoch in (1, 2):
        request = fetch(topic, 0, isolation_level=COMMITTED)
        stage.send(one_of_session(first.session_id, epoch, request))
        if epoch == 1:
            end_transaction(stage, producer, commit=False)


@scenario()
def log_starts_within_a_transaction(stage: ScenarioStage) -> None:
    """DeleteRecords removes the first records of an open transaction, which then ends."""
    topic, producer = stage.topic(), create_producer(stage)
    for sequence in range(3):  # within a batch, Apache Kafka goes back to its first offset
        append_batch(stage, producer, topic, sequence)
    for offset in (1, 3):
        stage.send(delete_records(topic, offset))
        look(stage, topic, offset)
    append_batch(stage, producer, topic, 3)
    look(stage, topic, 3)
    end_transaction(stage, producer, commit=False)
    look(stage, topic, 3)


@scenario()
def duplicates_within_a_transaction(stage: ScenarioStage) -> None:
    """Duplicate and out-of-order batches of a transaction, before and after its end."""
    topic, producer = stage.topic(), create_producer(stage)
    name = producer.transactional_id
    for sequence in (0, 1, 0, 1, 3, 2, 2):
        stage.send(txn_produce(name, topic, {0: txn_batch(stage, producer, sequence)}))
    end_transaction(stage, producer)
    for sequence in (2, 0, 4, 3):
        stage.send(txn_produce(name, topic, {0: txn_batch(stage, producer, sequence)}))
    look(stage, topic)


@scenario()
def hanging_transaction(stage: ScenarioStage) -> None:
    """An administrator's markers end a hanging transaction (KIP-664); its producer continues."""
    topic, producer = stage.topic(), create_producer(stage)
    append_batch(stage, producer, topic)
    look(stage, topic)
    stage.send(write_markers(marker(producer, {topic.name: [0]}, commit=False)))
    look(stage, topic)
    append_batch(stage, producer, topic, 1)
    end_transaction(stage, producer)
    look(stage, topic)


@scenario()
def fenced_by_a_new_start(stage: ScenarioStage) -> None:
    """A producer that restarts aborts the open transaction of its predecessor and fences it."""
    topic, old = stage.topic(), create_producer(stage)
    append_batch(stage, old, topic)
    new = create_producer(stage)
    wait_until_ended(stage, new)
    look(stage, topic)
    for producer in (old, new):
        records = txn_batch(stage, producer, 0 if producer is new else 1)
        stage.send(txn_produce(producer.transactional_id, topic, {0: records}))
    look(stage, topic)


# Committed offsets


@scenario()
def offsets_of_a_transaction(stage: ScenarioStage) -> None:
    """With requireStable, offsets of an open transaction are reported as unstable."""
    topic, group = stage.topic(partitions=3), stage.name("g")
    stage.send(commit(group, topic, 1))
    producer = create_producer(stage)
    for committing in (True, False):
        add_group(stage, producer, group)
        for partition, offset in ((0, 10 + committing), (1, 20 + committing)):
            stage.send(txn_commit(producer, group, topic, offset, partition=partition))
        fetch_offsets(stage, group, topic)
        end_transaction(stage, producer, commit=committing)
        fetch_offsets(stage, group, topic)


def fetch_offsets(stage: ScenarioStage, group: str, topic: CaseTopic) -> None:
    for stable in (False, True):
        stage.send(offset_fetch(group, topic, 0, 1, 2, stable=stable))
        stage.send(offset_fetch(group, None, stable=stable))


@scenario()
def written_by_transactions(stage: ScenarioStage) -> None:
    """The records and the marker of a transaction in __consumer_offsets."""
    topic, group, producer = stage.topic(), stage.name("g"), create_producer(stage)
    metadata_request = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
    metadata = stage.ask(metadata_request).topics[0]
    offsets = CaseTopic(OFFSETS_TOPIC, metadata.topic_id, len(metadata.partitions))
    partition = (java_hash(group) & 0x7FFFFFFF) % offsets.partitions
    start = offset_of(stage, offsets, LATEST, partition)
    add_group(stage, producer, group)
    stage.send(txn_commit(producer, group, topic, 7, metadata="note"))
    end_transaction(stage, producer)
    for kind, key, value in _of_producer(read(stage, offsets, start, partition), producer):
        stage.note(kind, key.replace(stage.prefix.encode(), b"~").hex())
        if kind != OFFSET:
            stage.note("value", value.hex())
            continue
        version = int.from_bytes(value[:2])
        offset = OffsetCommitValue.decode(value, version, 2)
        stage.note("offset", [version, offset.offset, offset.leader_epoch, offset.metadata])
        stage.note("expires", offset.expire_timestamp)
        stage.note("has the topic's id", offset.topic_id == topic.id)


def _of_producer(data: bytes, producer: CaseProducer) -> Iterator[tuple[str, bytes, bytes]]:
    """Kind, key and value of each record of the producer."""
    for position, header in iter_batches(data):
        if header.producer_id != producer.producer_id:
            continue
        assert header.is_transactional, "it is part of a transaction"
        kind = f"control of sequence {header.base_sequence}" if header.is_control else OFFSET
        for record in records(data, position):
            yield kind, bytes(record.key or b""), bytes(record.value or b"")
