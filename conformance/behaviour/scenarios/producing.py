"""Produce: what is refused, and what idempotent producers are told."""

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
from kwire.conformance.wire.broker import Topic
from kwire.conformance.wire.cases.build import batch, fetch, produce

scenario = Scenarios("producing")
SEQUENCE_MAX = 2**31 - 1


def producers(stage: ScenarioStage, *topics: Topic) -> None:
    """What the broker knows of producers in each topic's partition 0."""
    asked = [TopicRequest(topic.name, [0]) for topic in topics]
    stage.send(DescribeProducersRequest(asked))


@scenario(27)
def window_of_five(stage: ScenarioStage) -> None:
    """Trap 27: the last five batches are known again, with the offset they got; older are not."""
    topic = stage.topic()
    of = producer(stage)
    for sequence in range(7):
        send_sequence(stage, topic, of, sequence)
    for sequence in (6, 5, 4, 3, 2, 1, 0):
        send_sequence(stage, topic, of, sequence)
    send_sequence(stage, topic, of, 7)
    stage.send(list_offsets(topic, LATEST))


@scenario(27)
def out_of_order(stage: ScenarioStage) -> None:
    """Trap 27: a gap is refused and changes nothing; the right one still goes."""
    topic = stage.topic()
    of = producer(stage)
    send_sequence(stage, topic, of, 0, 3)
    for sequence, count in ((4, 1), (2, 1), (1, 2), (0, 2), (0, 4), (3, 1), (9, 1), (4, 2)):
        send_sequence(stage, topic, of, sequence, count)
    stage.send(list_offsets(topic, LATEST))
    producers(stage, topic)


@scenario(27)
def begins_anywhere(stage: ScenarioStage) -> None:
    """Trap 27: a producer the partition does not know may begin at any sequence."""
    topic = stage.topic(partitions=2)
    of = producer(stage)
    send_sequence(stage, topic, of, 50)
    send_sequence(stage, topic, of, 51)
    send_sequence(stage, topic, of, 0)
    send_sequence(stage, topic, of, 7, partition=1)


@scenario(27)
def epochs(stage: ScenarioStage) -> None:
    """Trap 27: a new epoch begins at 0 and ends the old one."""
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


@scenario(27)
def sequences_wrap(stage: ScenarioStage) -> None:
    """Trap 27: after 2147483647 comes 0, within a batch and between batches."""
    topic = stage.topic(partitions=2)
    of = producer(stage)
    for sequence, count in ((SEQUENCE_MAX - 1, 1), (SEQUENCE_MAX, 1), (0, 1), (SEQUENCE_MAX, 1)):
        send_sequence(stage, topic, of, sequence, count)
    for sequence, count in ((SEQUENCE_MAX - 1, 4), (1, 1), (2, 1), (SEQUENCE_MAX - 1, 4), (5, 1)):
        send_sequence(stage, topic, of, sequence, count, partition=1)
    stage.send(fetch(topic, partition=1))
    producers(stage, topic)


@scenario(27)
def after_records_are_deleted(stage: ScenarioStage) -> None:
    """Trap 27: what DeleteRecords took away does not make the producer forgotten."""
    topic = stage.topic()
    of = producer(stage)
    send_sequence(stage, topic, of, 0, 2)
    stage.send(delete_records(topic, -1))
    send_sequence(stage, topic, of, 0, 2)
    send_sequence(stage, topic, of, 5)
    send_sequence(stage, topic, of, 2)
    producers(stage, topic)


@scenario(27)
def after_the_topic_is_recreated(stage: ScenarioStage) -> None:
    """Trap 27: a topic made again knows none of its producers."""
    topic = stage.topic()
    of = producer(stage)
    send_sequence(stage, topic, of, 0)
    send_sequence(stage, topic, of, 1)
    stage.send(delete_topic(topic.name))
    stage.settle()
    again = stage.topic()
    send_sequence(stage, again, of, 1)
    send_sequence(stage, again, of, 0)
    producers(stage, again)


@scenario(27)
def without_a_sequence(stage: ScenarioStage) -> None:
    """Trap 27: a producer id needs an epoch and a sequence, and no other batch has them."""
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


@scenario(27)
def producer_ids(stage: ScenarioStage) -> None:
    """Trap 27: every InitProducerId without a transactional id gives a new id at epoch 0."""
    for known in ((-1, -1), (-1, -1), (5, 0), (-1, 0), (0, -1)):
        for version in (0, 3, 4):
            request = InitProducerIdRequest(None, 60_000)
            if version >= 3:
                request.producer_id, request.producer_epoch = known
            stage.send(request, version)


@scenario(34)
def too_large(stage: ScenarioStage) -> None:
    """Trap 34: max.message.bytes is of the whole batch, compressed, to the byte."""
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


@scenario(34)
def keyless_on_compacted(stage: ScenarioStage) -> None:
    """Trap 34: a record without a key on a compacted topic: INVALID_RECORD, with which ones."""
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


@scenario(51)
def min_insync_replicas(stage: ScenarioStage) -> None:
    """Trap 51: more in-sync replicas than there can be are not waited for."""
    topic = stage.topic(configs={"min.insync.replicas": "2"})
    stage.send(produce(topic, batch(stage, b"a"), acks=-1))
    configure(stage, topic, min_insync_replicas="5")
    stage.send(produce(topic, batch(stage, b"a"), acks=-1))
    stage.send(fetch(topic))


@scenario(25)
def old_formats(stage: ScenarioStage) -> None:
    """Trap 25: batches of magic 0 and 1 are refused: no version that is left may carry them."""
    topic = stage.topic()
    made = batch(stage, b"a" * 40)
    for magic in (0, 1, 3, 127):
        made[16] = magic
        stage.send(produce(topic, made))
    stage.send(fetch(topic))


@scenario(25)
def no_batch(stage: ScenarioStage) -> None:
    """Trap 25: nothing, half a batch and two batches are refused."""
    topic = stage.topic()
    made = batch(stage, b"a")
    for data in (b"", bytes(made[:40]), bytes(made) * 2):
        stage.send(produce(topic, data))
    stage.send(fetch(topic))


@scenario()
def timestamps_out_of_bounds(stage: ScenarioStage) -> None:
    """message.timestamp.before.max.ms and .after.max.ms refuse what lies outside of them."""
    topic = stage.topic(
        configs={
            "message.timestamp.before.max.ms": "600000",
            "message.timestamp.after.max.ms": "600000",
        }
    )
    now = stage.now_ms
    for ahead_ms in (-1_200_000, -300_000, 0, 300_000, 1_200_000):
        reply = stage.ask(produce(topic, batch(stage, b"a", b"b", first_ms=now + ahead_ms)))
        found = reply.responses[0].partition_responses[0]
        errors = [error.batch_index for error in found.record_errors]
        stage.note(f"{ahead_ms} ms", [found.error_code, found.error_message, errors])
    configure(stage, topic, message_timestamp_type="LogAppendTime")
    stage.send(produce(topic, batch(stage, b"a", first_ms=now - 1_200_000)))


@scenario()
def several_partitions_one_bad(stage: ScenarioStage) -> None:
    """Each partition of a request has its own verdict."""
    good, small = stage.topic("good", 2), stage.topic("small", configs={"max.message.bytes": "80"})
    request = produce(good, batch(stage, b"x" * 100))
    for partition in (3, 1):
        more = produce(good, batch(stage, b"x"), partition=partition)
        request.topic_data[0].partition_data += more.topic_data[0].partition_data
    request.topic_data += produce(small, batch(stage, b"x" * 100)).topic_data
    for acks in (1, -1):
        request.acks = acks
        reply = stage.ask(request)
        for topic, word in ((good, "good"), (small, "small")):  # a hash map has their order
            found = [answer for answer in reply.responses if answer.topic_id == topic.id]
            answers = [a for f in found for a in f.partition_responses]
            told = sorted([a.index, a.error_code, a.base_offset] for a in answers)
            stage.note(f"{word} with acks {acks}", [list(map(int, one)) for one in told])
