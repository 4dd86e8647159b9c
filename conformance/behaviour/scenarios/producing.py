"""Scenarios of Produce: refused batches, and the responses to idempotent producers."""

from __future__ import annotations

from kwire.codecs.batches import Compression, Record, build
from kwire.codecs.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.conformance.behaviour.asking import (
    LATEST,
    configure,
    delete_records,
    delete_topic,
    list_offsets,
    producer,
    send_sequence,
)
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import batch, fetch, produce

scenario = Scenarios("producing")
SEQUENCE_MAX = 2**31 - 1


def producers(stage: ScenarioStage, *topics: CaseTopic) -> None:
    """Describe the producers of partition 0 of each topic."""
    partitions = [TopicRequest(topic.name, [0]) for topic in topics]
    stage.send(DescribeProducersRequest(partitions))


@scenario()
def window_of_five(stage: ScenarioStage) -> None:
    """A duplicate of the last five batches gets its original offset; an older one is refused."""
    topic = stage.topic()
    of = producer(stage)
    for sequence in range(7):
        send_sequence(stage, topic, of, sequence)
    for sequence in (6, 5, 4, 3, 2, 1, 0):
        send_sequence(stage, topic, of, sequence)
    send_sequence(stage, topic, of, 7)
    stage.send(list_offsets(topic, LATEST))


@scenario()
def out_of_order(stage: ScenarioStage) -> None:
    """A gap in the sequence is refused without effect; the right batch is still accepted."""
    topic = stage.topic()
    of = producer(stage)
    send_sequence(stage, topic, of, 0, 3)
    for sequence, count in ((4, 1), (2, 1), (1, 2), (0, 2), (0, 4), (3, 1), (9, 1), (4, 2)):
        send_sequence(stage, topic, of, sequence, count)
    stage.send(list_offsets(topic, LATEST))
    producers(stage, topic)


@scenario()
def begins_anywhere(stage: ScenarioStage) -> None:
    """A producer that is new to a partition may begin at any sequence number."""
    topic = stage.topic(partitions=2)
    of = producer(stage)
    send_sequence(stage, topic, of, 50)
    send_sequence(stage, topic, of, 51)
    send_sequence(stage, topic, of, 0)
    send_sequence(stage, topic, of, 7, partition=1)


@scenario()
def epochs(stage: ScenarioStage) -> None:
    """A new producer epoch begins at sequence number 0 and fences the old one."""
    topic = stage.topic()
    number, epoch = producer(stage)
    send_sequence(stage, topic, (number, epoch), 0, 2)
    send_sequence(stage, topic, (number, epoch + 1), 2)
    send_sequence(stage, topic, (number, epoch + 1), 0)
    send_sequence(stage, topic, (number, epoch), 2)
    send_sequence(stage, topic, (number, epoch), 0, 2)
    send_sequence(stage, topic, (number, epoch + 1), 0)
    send_sequence(stage, topic, (number, epoch + 5), 0)
    send_sequence(stage, topic, (number, -1), 1)
    send_sequence(stage, topic, (number, 32_767), 0)
    producers(stage, topic)


@scenario()
def sequences_wrap(stage: ScenarioStage) -> None:
    """Sequence numbers wrap from 2147483647 to 0, within a batch and between batches."""
    topic = stage.topic(partitions=2)
    of = producer(stage)
    for sequence, count in ((SEQUENCE_MAX - 1, 1), (SEQUENCE_MAX, 1), (0, 1), (SEQUENCE_MAX, 1)):
        send_sequence(stage, topic, of, sequence, count)
    for sequence, count in ((SEQUENCE_MAX - 1, 4), (1, 1), (2, 1), (SEQUENCE_MAX - 1, 4), (5, 1)):
        send_sequence(stage, topic, of, sequence, count, partition=1)
    stage.send(fetch(topic, partition=1))
    producers(stage, topic)


@scenario()
def after_records_are_deleted(stage: ScenarioStage) -> None:
    """The state of a producer remains after DeleteRecords has removed its records."""
    topic = stage.topic()
    of = producer(stage)
    send_sequence(stage, topic, of, 0, 2)
    stage.send(delete_records(topic, -1))
    send_sequence(stage, topic, of, 0, 2)
    send_sequence(stage, topic, of, 5)
    send_sequence(stage, topic, of, 2)
    producers(stage, topic)


@scenario()
def after_the_topic_is_recreated(stage: ScenarioStage) -> None:
    """A topic that is created again does not know its earlier producers."""
    topic = stage.topic()
    of = producer(stage)
    send_sequence(stage, topic, of, 0)
    send_sequence(stage, topic, of, 1)
    stage.send(delete_topic(topic.name))
    stage.await_controller()
    again = stage.topic()
    send_sequence(stage, again, of, 1)
    send_sequence(stage, again, of, 0)
    producers(stage, again)


@scenario()
def without_a_sequence(stage: ScenarioStage) -> None:
    """A producer id needs an epoch and a sequence number; other batches must have none of them."""
    topic = stage.topic()
    number, epoch = producer(stage)
    for fields in (
        {"producer_id": number, "producer_epoch": epoch},
        {"producer_id": number, "base_sequence": 0},
        {"producer_epoch": epoch, "base_sequence": 0},
        {"base_sequence": 5},
        {"producer_id": -2, "producer_epoch": 0, "base_sequence": 0},
    ):
        stage.send(produce(topic, batch(stage, b"v", **fields), acks=-1))
    stage.send(fetch(topic))


@scenario()
def producer_ids(stage: ScenarioStage) -> None:
    """Every InitProducerId without a transactional id returns a new id with epoch 0."""
    for known in ((-1, -1), (-1, -1), (5, 0), (-1, 0), (0, -1)):
        for version in (0, 3, 4):
            request = InitProducerIdRequest(None, 60_000)
            if version >= 3:
                request.producer_id, request.producer_epoch = known
            stage.send(request, version)


@scenario()
def too_large(stage: ScenarioStage) -> None:
    """max.message.bytes limits the compressed size of a whole batch, to the byte."""
    topic = stage.topic(configs={"max.message.bytes": "500"})
    overhead = len(batch(stage, b"x" * 400)) - 400
    for size in (500, 501, 499):
        stage.send(produce(topic, batch(stage, b"x" * (size - overhead))))
    stage.send(produce(topic, batch(stage, b"x" * 9000, compression=Compression.GZIP)))
    configure(stage, topic, max_message_bytes="1000")
    stage.send(produce(topic, batch(stage, b"x" * 600)))
    configure(stage, topic, max_message_bytes="100")
    stage.send(produce(topic, batch(stage, b"x" * 600)))
    stage.send(fetch(topic))


@scenario()
def keyless_on_compacted(stage: ScenarioStage) -> None:
    """A record without a key is refused by a compacted topic; the response lists such records."""
    topic = stage.topic(configs={"cleanup.policy": "compact"})
    now = stage.now_ms
    keys = (b"a", None, b"", None, None, None)
    records = [Record(i, now, key, b"v") for i, key in enumerate(keys)]
    stage.send(produce(topic, build(records)))
    stage.send(produce(topic, build(records), acks=-1), 7)
    stage.send(produce(topic, build(records[2:3])))
    configure(stage, topic, cleanup_policy="delete")
    stage.send(produce(topic, build(records)))
    configure(stage, topic, cleanup_policy="compact,delete")
    stage.send(produce(topic, build(records)))
    stage.send(fetch(topic))


@scenario()
def min_insync_replicas(stage: ScenarioStage) -> None:
    """min.insync.replicas above the number of replicas."""
    topic = stage.topic(configs={"min.insync.replicas": "2"})
    stage.send(produce(topic, batch(stage, b"a"), acks=-1))
    configure(stage, topic, min_insync_replicas="5")
    stage.send(produce(topic, batch(stage, b"a"), acks=-1))
    stage.send(fetch(topic))


@scenario()
def old_formats(stage: ScenarioStage) -> None:
    """Batches of magic 0 and 1 are refused, since no supported version may contain them."""
    topic = stage.topic()
    data = batch(stage, b"a" * 40)
    for magic in (0, 1, 3, 127):
        data[16] = magic
        stage.send(produce(topic, data))
    stage.send(fetch(topic))


@scenario()
def no_batch(stage: ScenarioStage) -> None:
    """No batch, half a batch and two batches are refused."""
    topic = stage.topic()
    valid = batch(stage, b"a")
    for data in (b"", bytes(valid[:40]), bytes(valid) * 2):
        stage.send(produce(topic, data))
    stage.send(fetch(topic))


@scenario()
def timestamps_out_of_bounds(stage: ScenarioStage) -> None:
    """message.timestamp.before.max.ms and .after.max.ms refuse records outside their range."""
    topic = stage.topic(
        configs={
            "message.timestamp.before.max.ms": "600000",
            "message.timestamp.after.max.ms": "600000",
        }
    )
    now = stage.now_ms
    for ahead_ms in (-1_200_000, -300_000, 0, 300_000, 1_200_000):
        reply = stage.ask(produce(topic, batch(stage, b"a", b"b", first_ms=now + ahead_ms)))
        result = reply.responses[0].partition_responses[0]
        errors = [error.batch_index for error in result.record_errors]
        stage.note(f"{ahead_ms} ms", [result.error_code, result.error_message, errors])
    configure(stage, topic, message_timestamp_type="LogAppendTime")
    stage.send(produce(topic, batch(stage, b"a", first_ms=now - 1_200_000)))


@scenario()
def several_partitions_one_bad(stage: ScenarioStage) -> None:
    """Each partition of a request has its own result."""
    good, small = stage.topic("good", 2), stage.topic("small", configs={"max.message.bytes": "80"})
    request = produce(good, batch(stage, b"x" * 100))
    for partition in (3, 1):
        more = produce(good, batch(stage, b"x"), partition=partition)
        request.topic_data[0].partition_data += more.topic_data[0].partition_data
    request.topic_data += produce(small, batch(stage, b"x" * 100)).topic_data
    for acks in (1, -1):
        request.acks = acks
        reply = stage.ask(request)
        # Apache Kafka takes the order of topics from a hash map.
        for topic, word in ((good, "good"), (small, "small")):
            responses = [response for response in reply.responses if response.topic_id == topic.id]
            results = [result for response in responses for result in response.partition_responses]
            values = sorted(
                [result.index, result.error_code, result.base_offset] for result in results
            )
            stage.note(f"{word} with acks {acks}", [list(map(int, value)) for value in values])
