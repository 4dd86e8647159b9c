"""Cases of Produce with transactional batches, to partitions inside and outside the transaction.

They run alone: Apache Kafka asks the coordinator about several producers at once, and the version
of the first one's request decides which error all of them get.
"""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import Compression
from kwire.codecs.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.primitives import ZERO_UUID, Records
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import batch, unknown_topic
from kwire.conformance.wire.cases.txn import (
    CaseProducer,
    begin_transaction,
    create_producer,
    end_transaction,
    wait_until_ended,
)
from kwire.conformance.wire.cases.txn_data import txn_batch, txn_produce
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.PRODUCE, alone=True)

ABORTABLE_AT = 11
IMPLICIT_SINCE = 12
"""From this version of Produce, writing to a partition adds it to the transaction."""


@case("transactional: partitions that are part of it, and others")
def transactional(stage: Stage) -> None:
    """Batches go to partitions of the transaction (0 and 2), to others, and out of sequence."""
    topic, other = stage.topic("t", 3), stage.topic("u", 3)
    producer = begin_transaction(stage, "txn", topic)
    for sequence in (0, 1, 1, 3):
        batches = {index: txn_batch(stage, producer, sequence) for index in (0, 2, 7)}
        stage.send(txn_produce(producer.transactional_id, topic, {**batches, 1: batch(stage, b"")}))
        stage.send(txn_produce(producer.transactional_id, other, {0: batches[0]}))
    stage.send(DescribeProducersRequest([TopicRequest(t.name, [0, 1, 2]) for t in (topic, other)]))


@case("transactional: nothing was added")
def transactional_first(stage: Stage) -> None:
    """Batches go to partitions that were not added, with first and later sequence numbers.

    From version 12 on this adds the partition to the transaction.
    """
    topic, producer = stage.topic(partitions=3), create_producer(stage)
    for index, sequence in ((0, 0), (0, 1), (1, 5), (2, 2**31 - 1)):
        batches = {index: txn_batch(stage, producer, sequence)}
        stage.send(txn_produce(producer.transactional_id, topic, batches))
    stage.send(DescribeProducersRequest([TopicRequest(topic.name, [0, 1, 2])]))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("transactional: other producers and ids")
def transactional_others(stage: Stage) -> None:
    """The batch has another producer id or epoch, and the request another transactional id."""
    topic = stage.topic()
    create_producer(stage)
    producer = begin_transaction(stage, "txn", topic)
    for name in (producer.transactional_id, stage.name("unknown"), "", None):
        for by, epoch in ((0, 1), (0, -1), (1000, 0)):
            one = producer.other(producer_id=by, epoch=epoch)
            stage.send(txn_produce(name, topic, {0: txn_batch(stage, one)}))


@case("transactional: once it has begun, the id does not matter")
def transactional_id(stage: Stage) -> None:
    """The request names the right, an unknown, an empty and no transactional id."""
    topic = stage.topic()
    producer = begin_transaction(stage, "txn", topic)
    names = (producer.transactional_id, stage.name("unknown"), "", None)
    for sequence, name in enumerate(names):
        stage.send(txn_produce(name, topic, {0: txn_batch(stage, producer, sequence)}))


@case("transactional: without an id the whole request is refused")
def transactional_without_id(stage: Stage) -> None:
    """One transactional batch without a transactional id has the whole request refused.

    The request also has a plain batch and a partition that does not exist; acks=7 is invalid.
    """
    topic, producer = stage.topic(partitions=2), create_producer(stage)
    batches: dict[int, Records | None] = {
        0: txn_batch(stage, producer),
        1: batch(stage, b"plain"),
        9: batch(stage, b"nowhere"),
    }
    stage.send(txn_produce(None, topic, batches))
    stage.send(txn_produce(None, unknown_topic(stage), batches))
    stage.send(txn_produce(None, topic, batches, acks=7))


@case("transactional: an acks that does not exist")
def transactional_acks(stage: Stage) -> None:
    """Transactional batches need acks=all; other values are sent."""
    topic = stage.topic()
    producer = begin_transaction(stage, "txn", topic)
    for acks in (2, -2, 1):
        records = txn_batch(stage, producer)
        stage.send(txn_produce(producer.transactional_id, topic, {0: records}, acks))


@case("transactional: several producers in a request")
def several_producers(stage: Stage) -> None:
    """One request has batches of two producers, or of two epochs of a producer."""
    topic = stage.topic(partitions=3)
    one, other = begin_transaction(stage, "one", topic), begin_transaction(stage, "other", topic)
    for second in (other, one.other(epoch=1)):
        batches: dict[int, Records | None] = {
            0: txn_batch(stage, one),
            1: txn_batch(stage, second),
            2: batch(stage, b"plain"),
            9: txn_batch(stage, one),
        }
        stage.send(txn_produce(one.transactional_id, topic, batches))
    batches = {0: txn_batch(stage, one), 1: txn_batch(stage, other, transactional=False)}
    stage.send(txn_produce(one.transactional_id, topic, batches))


@case("transactional: outside of the transaction while it is open")
def outside(stage: Stage) -> None:
    """A producer writes plain batches while its transaction is open, to both kinds of partitions.

    Partition 0 was added to the transaction, partition 1 was not.
    """
    topic = stage.topic(partitions=2)
    producer = begin_transaction(stage, "txn", topic)
    for index in (1, 0):
        for sequence, inside in enumerate((index == 0, False, True)):
            records = txn_batch(stage, producer, sequence, transactional=inside)
            stage.send(txn_produce(producer.transactional_id, topic, {index: records}))


@case("transactional: without a producer, and control")
def odd_transactional(stage: Stage) -> None:
    """Transactional batches without a producer id (-1), and a control batch, are refused."""
    topic = stage.topic(partitions=3)
    producer = begin_transaction(stage, "txn", topic)
    nobody = CaseProducer("", -1, -1)
    batches: dict[int, Records | None] = {
        0: txn_batch(stage, nobody, -1),
        1: txn_batch(stage, nobody, 0),
        2: txn_batch(stage, producer, control=True),
    }
    for index, records in batches.items():
        stage.send(txn_produce(producer.transactional_id, topic, {index: records}))


@case("transactional: after a new start of the producer")
def fenced(stage: Stage) -> None:
    """A producer that starts anew fences the earlier one, whose batches are then refused."""
    topic = stage.topic()
    producer = begin_transaction(stage, "txn", topic)
    stage.send(txn_produce(producer.transactional_id, topic, {0: txn_batch(stage, producer)}))
    create_producer(stage)
    wait_until_ended(stage, producer)
    for sequence in (0, 1):
        records = txn_batch(stage, producer, sequence)
        stage.send(txn_produce(producer.transactional_id, topic, {0: records}))


@case("transactional: after its end", until=ABORTABLE_AT)
def after_its_end(stage: Stage) -> None:
    """A producer writes after the end of its transaction: the next number and a repetition."""
    topic = stage.topic()
    producer = begin_transaction(stage, "txn", topic)
    stage.send(txn_produce(producer.transactional_id, topic, {0: txn_batch(stage, producer)}))
    end_transaction(stage, producer)
    for sequence in (0, 1):
        records = txn_batch(stage, producer, sequence)
        stage.send(txn_produce(producer.transactional_id, topic, {0: records}))


@case("transactional: the next one, in the same epoch", since=IMPLICIT_SINCE)
def next_one(stage: Stage) -> None:
    """A transaction begins in the epoch of the last one, and sequence numbers go on."""
    topic = stage.topic()
    producer = begin_transaction(stage, "txn", topic)
    for sequence, commit in enumerate((True, False)):
        records = txn_batch(stage, producer, sequence)
        stage.send(txn_produce(producer.transactional_id, topic, {0: records}))
        end_transaction(stage, producer, commit=commit)
    stage.send(DescribeProducersRequest([TopicRequest(topic.name, [0])]))


@case("transactional: to the groups' own topic", until=12)
def transactional_internal(stage: Stage) -> None:
    topic, producer = CaseTopic("__consumer_offsets", ZERO_UUID, 50), create_producer(stage)
    records = txn_batch(stage, producer, 0, b"a", keyed=True)
    stage.send(txn_produce(producer.transactional_id, topic, {0: records}))


@case("transactional: compressed, too large, broken")
def transactional_codecs(stage: Stage) -> None:
    """Transactional batches that are compressed, too large (more than 1000 bytes) or corrupt."""
    topic = stage.topic(configs={"max.message.bytes": "1000"})
    producer = begin_transaction(stage, "txn", topic)
    broken = txn_batch(stage, producer, 0, b"a")
    broken[-1] ^= 1
    for records in (
        txn_batch(stage, producer, 0, b"a" * 100, compression=Compression.GZIP),
        txn_batch(stage, producer, 1, bytes(2000)),
        broken,
        txn_batch(stage, producer, 1, b"a" * 100, compression=Compression.ZSTD),
    ):
        stage.send(txn_produce(producer.transactional_id, topic, {0: records}))
