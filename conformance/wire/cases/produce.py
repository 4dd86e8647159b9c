"""Cases of Produce: valid batches, batches with one defect each, and unknown partitions."""

from __future__ import annotations

from struct import pack
from zlib import crc32

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import Compression, ControlType, Record, build, control_batch, seal
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.primitives import ZERO_UUID
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases import transactional_produce
from kwire.conformance.wire.cases.build import (
    UNKNOWN_ID,
    append_time_topic,
    batch,
    fetch,
    filled_topic,
    no_topic,
    produce,
    unknown_topic,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.PRODUCE)

LIMIT = "max.decompressed.message.bytes"


def access_request(version: int, topic_id: bytes) -> ProduceRequest:
    data = PartitionProduceData(INDEX, build([Record(0, 0, None, b"x")]))
    topic = TopicProduceData(TOPIC, topic_id, [data])
    return ProduceRequest(None, 1, 1000, [topic])


@case("one batch after another, and read back")
def good(stage: Stage) -> None:
    """Batches with keys and a null value are produced with acks=1 and acks=all, and read."""
    topic = stage.topic()
    for acks in (1, -1):
        stage.send(produce(topic, batch(stage, b"a", b"b", None, keyed=True), acks=acks))
    stage.send(fetch(topic))


@case("a version that is advertised for old clients' sake and not served", until=2)
def old(stage: Stage) -> None:
    stage.send_bytes(bytes.fromhex("0001 000003e8 00000000"))  # acks=1, no topics


@case("acks=0 has no reply")
def no_acks(stage: Stage) -> None:
    """A request with acks=0 has no response; the next response is that of the next request."""
    topic = stage.topic()
    stage.send_unanswered(produce(topic, batch(stage, b"a"), acks=0))
    stage.send(produce(topic, batch(stage, b"b")))
    stage.send(fetch(topic))


@case("acks=0 to an unknown topic closes the connection")
def no_acks_error(stage: Stage) -> None:
    stage.send_unanswered(produce(unknown_topic(stage), batch(stage, b"a"), acks=0))
    stage.send(produce(unknown_topic(stage), batch(stage, b"b")))


@case("every compression")
def compressed(stage: Stage) -> None:
    """Batches of each codec are produced and read."""
    topic = stage.topic()
    for codec in Compression:
        stage.send(produce(topic, batch(stage, b"a" * 500, b"b", compression=codec)))
    stage.send(fetch(topic))


@case("log append time")
def append_time(stage: Stage) -> None:
    topic = append_time_topic(stage)
    stage.send(produce(topic, batch(stage, b"a", b"b")))
    stage.send(fetch(topic))


@case("acks=2 to what is there, what is not, and nothing")
def two_acks(stage: Stage) -> None:
    """acks=2, which is invalid, is sent to existing and missing partitions and without
    partitions."""
    topic, other = filled_topic(stage), unknown_topic(stage)
    entries = [PartitionProduceData(i, batch(stage, b"a")) for i in (1, 9)]
    data = [
        TopicProduceData(topic.name, topic.id, entries),
        TopicProduceData(other.name, other.id, entries[:1]),
    ]
    stage.send(ProduceRequest(acks=2, timeout_ms=1000, topic_data=data))
    empty = [TopicProduceData(topic.name, topic.id)]
    stage.send(ProduceRequest(acks=2, timeout_ms=1000, topic_data=empty))


@case("two partitions, one of them unknown, and an unknown topic")
def mixed(stage: Stage) -> None:
    """One request writes to two existing partitions, a missing partition and a missing topic."""
    topic, other = stage.topic(partitions=2), unknown_topic(stage)
    entries = [PartitionProduceData(i, batch(stage, b"a")) for i in (1, 7, 0)]
    lost = [PartitionProduceData(0, batch(stage, b"a"))]
    data = [
        TopicProduceData(topic.name, topic.id, entries),
        TopicProduceData(other.name, other.id, lost),
    ]
    stage.send(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))


@case("the same partition twice")
def twice(stage: Stage) -> None:
    """One request has two batches for a partition; the fetch shows what was appended."""
    topic = stage.topic()
    entries = [PartitionProduceData(0, batch(stage, value)) for value in (b"a", b"b")]
    data = [TopicProduceData(topic.name, topic.id, entries)]
    stage.send(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))
    stage.send(fetch(topic))


@case("too large for the topic")
def too_large(stage: Stage) -> None:
    topic = stage.topic(configs={"max.message.bytes": "200"})
    stage.send(produce(topic, batch(stage, b"x" * 200)))
    stage.send(produce(topic, batch(stage, b"x" * 100)))


@case("no key on a compacted topic")
def keyless(stage: Stage) -> None:
    topic = stage.topic(configs={"cleanup.policy": "compact"})
    stage.send(produce(topic, batch(stage, b"a", b"b")))
    stage.send(produce(topic, batch(stage, b"a", keyed=True)))


@case("timestamps too far ahead")
def ahead(stage: Stage) -> None:
    stage.send(produce(stage.topic(), batch(stage, b"a", first_ms=stage.now_ms + 7_200_000)))


@case("min.insync.replicas above the replication factor")
def min_isr(stage: Stage) -> None:
    topic = stage.topic(configs={"min.insync.replicas": "2"})
    for acks in (1, -1):
        stage.send(produce(topic, batch(stage, b"a"), acks=acks))


@case("recompressed by the topic")
def recompressed(stage: Stage) -> None:
    topic = stage.topic(configs={"compression.type": "uncompressed"})
    stage.send(produce(topic, batch(stage, b"a" * 100, b"b", compression=Compression.LZ4)))
    stage.send(fetch(topic))


def _producer(stage: Stage) -> tuple[int, int]:
    reply = stage.ask(InitProducerIdRequest(None, 60_000), 3)
    return reply.producer_id, reply.producer_epoch


@case("a limit of decompressed records")
def decompressed_limit(stage: Stage) -> None:
    """max.decompressed.message.bytes limits each record of a compressed batch, before all else.

    A record with a value of 93 bytes and no key has 100 bytes.
    """
    topic = stage.topic(configs={LIMIT: "100"})
    for codec in Compression:
        for sizes in ((93,), (94,), (5, 5000, 5)):
            values = [b"x" * size for size in sizes]
            stage.send(produce(topic, batch(stage, *values, compression=codec), acks=-1))
    stage.send(produce(topic, batch(stage, b"x" * 93, keyed=True, compression=Compression.LZ4)))
    for name, value in (
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "LogAppendTime"),
        ("compression.type", "zstd"),
    ):
        other = stage.topic(name, configs={name: value, LIMIT: "100"})
        for size in (5000, 1):
            stage.send(produce(other, batch(stage, b"x" * size, compression=Compression.GZIP)))


@case("idempotent: in order, again, a gap, an old one, a new epoch")
def idempotent(stage: Stage) -> None:
    """Batches of an idempotent producer: duplicates, gaps and new epochs get their own errors."""
    topic = stage.topic()
    producer_id, epoch = _producer(stage)

    def send(sequence: int, count: int = 1, of_epoch: int = epoch) -> None:
        """Produce `count` records from this sequence number on."""
        records = batch(
            stage,
            *[b"v"] * count,
            producer_id=producer_id,
            producer_epoch=of_epoch,
            base_sequence=sequence,
        )
        stage.send(produce(topic, records, acks=-1))

    for sequence in (0, 2, 4):
        send(sequence, 2)
    send(4, 2)  # a duplicate
    send(0, 2)  # an older duplicate
    send(4, 3)  # overlaps
    send(9)  # a gap
    send(6)
    for sequence in range(7, 12):
        send(sequence)
    send(0, 2)  # too old to be recognized as a duplicate
    send(0, of_epoch=epoch + 1)
    send(12)  # the old epoch
    send(5, of_epoch=epoch + 2)  # a new epoch must start at 0
    stage.send(fetch(topic))


@case("idempotent: an unknown producer that begins in the middle")
def unknown_producer(stage: Stage) -> None:
    """The first batch of an idempotent producer has sequence number 1000."""
    topic = stage.topic()
    producer_id, epoch = _producer(stage)
    records = batch(stage, b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=1000)
    stage.send(produce(topic, records, acks=-1))


@case("idempotent: the sequence wraps")
def wrapping(stage: Stage) -> None:
    """A sequence number after 2^31 - 1 is 0: the first batch has the last two numbers and 0."""
    topic = stage.topic()
    producer_id, epoch = _producer(stage)
    for sequence, count in ((2**31 - 2, 3), (1, 1), (3, 1)):
        records = batch(
            stage,
            *[b"v"] * count,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        stage.send(produce(topic, records, acks=-1))


def _add_header_case(name: str, position: int, data: bytes, *, sealed: bool = False) -> None:
    """A batch whose header has `data` at `position`; `sealed` makes its checksum fit."""

    @case(f"batch header: {name}")
    def play(stage: Stage) -> None:
        """Produce a batch with these bytes in its header, in a topic of its own if its CRC is
        valid. The log is then read; the batches with a wrong CRC share a topic, since none is
        appended."""
        records = batch(stage, b"a", b"b")
        records[position : position + len(data)] = data
        if sealed:
            seal(records)
        topic = stage.topic() if sealed else filled_topic(stage)
        stage.send(produce(topic, records, partition=0 if sealed else 1, acks=1))
        if sealed:
            stage.send(fetch(topic))


_add_header_case("length above the bytes there are", 8, b"\x00\x00\x7f\xff")
_add_header_case("length below the least", 8, b"\x00\x00\x00\x05")
_add_header_case("negative length", 8, b"\xff\xff\xff\xff")
_add_header_case("magic 3", 16, b"\x03")
_add_header_case("negative magic", 16, b"\xff")
_add_header_case("magic 1", 16, b"\x01")
_add_header_case("magic 0", 16, b"\x00")
_add_header_case("a leader epoch", 12, pack(">i", 5))
_add_header_case("log append time", 21, b"\x00\x08", sealed=True)
_add_header_case("transactional, no producer", 21, b"\x00\x10", sealed=True)
_add_header_case("control", 21, b"\x00\x20", sealed=True)
_add_header_case("delete horizon", 21, b"\x00\x40", sealed=True)
_add_header_case("attributes that mean nothing", 21, b"\x7f\x80", sealed=True)
_add_header_case("a compression that does not exist", 21, b"\x00\x05", sealed=True)
_add_header_case("compressed, it says", 21, b"\x00\x01", sealed=True)
_add_header_case("last offset delta above the count", 23, pack(">i", 2), sealed=True)
_add_header_case("last offset delta below the count", 23, pack(">i", 0), sealed=True)
_add_header_case("negative last offset delta", 23, pack(">i", -1), sealed=True)
_add_header_case("another base timestamp", 27, pack(">q", 1_000_000_000_000), sealed=True)
_add_header_case("no base timestamp", 27, pack(">q", -1), sealed=True)
_add_header_case("another highest timestamp", 35, pack(">q", 7), sealed=True)
_add_header_case("a highest timestamp far ahead", 35, pack(">q", 1 << 50), sealed=True)
_add_header_case("a producer without an epoch", 43, pack(">qhi", 77, -1, 0), sealed=True)
_add_header_case("a producer without a sequence", 43, pack(">qhi", 77, 0, -1), sealed=True)
_add_header_case("an epoch without a producer", 43, pack(">qhi", -1, 3, 0), sealed=True)
_add_header_case("a negative producer", 43, pack(">qhi", -9, 0, 0), sealed=True)
_add_header_case("a producer that nobody handed out", 43, pack(">qhi", 1 << 60, 0, 0), sealed=True)
_add_header_case("more records than there are", 57, pack(">i", 3), sealed=True)
_add_header_case("fewer records than there are", 57, pack(">i", 1), sealed=True)
_add_header_case("no records", 57, pack(">i", 0), sealed=True)
_add_header_case("a negative number of records", 57, pack(">i", -1), sealed=True)


@case("to the groups' own topic", until=12)
def internal(stage: Stage) -> None:
    topic = CaseTopic("__consumer_offsets", ZERO_UUID, 50)
    stage.send(produce(topic, batch(stage, b"a", keyed=True)))


@case("records with headers, empty and null")
def headers(stage: Stage) -> None:
    """Record headers are kept: empty and null values, a repeated key, a key outside of ASCII."""
    topic = stage.topic()
    pairs: list[tuple[str, bytes | None]] = [
        ("", b""),
        ("h", None),
        ("h", b"v"),
        ("caf\u00e9", b"x"),
    ]
    record = Record(0, stage.now_ms, b"", b"", pairs)
    stage.send(produce(topic, build([record])))
    stage.send(fetch(topic))


@case("timestamps below 0")
def negative_timestamps(stage: Stage) -> None:
    """Batches with negative timestamps; -1 means that a record has none."""
    topic = stage.topic()
    for first_ms in (-1, 0, -5):
        stage.send(produce(topic, batch(stage, b"a", first_ms=first_ms)))
    stage.send(fetch(topic))


@case("message formats 0 and 1")
def legacy(stage: Stage) -> None:
    """Messages of the formats 0 and 1 are produced; a fetch shows what was appended.

    The packed bytes are one message without key and compression: CRC, magic, attributes, value.
    """
    topic = stage.topic()
    for magic in (0, 1):
        time = b"" if magic == 0 else pack(">q", stage.now_ms)
        body = pack(">bb", magic, 0) + time + pack(">i", -1) + pack(">i", 1) + b"v"
        message = pack(">I", crc32(body)) + body
        stage.send(produce(topic, pack(">qi", 0, len(message)) + message))
    stage.send(fetch(topic))


_add_header_case("wrong checksum", 17, b"\x12\x34\x56\x78")


@case("a control batch")
def control(stage: Stage) -> None:
    """A client produces a control batch, which only a coordinator may write."""
    marker = control_batch(
        ControlType.COMMIT, 0, producer_id=1, producer_epoch=0, timestamp=stage.now_ms
    )
    stage.send(produce(filled_topic(stage), marker, partition=1))


@case("two batches in one partition")
def two_batches(stage: Stage) -> None:
    stage.send(produce(stage.topic(), batch(stage, b"a") + batch(stage, b"b")))


@case("a transactional batch without a transactional id")
def transactional(stage: Stage) -> None:
    """A transactional batch is refused if its request has no transactional id."""
    producer_id, epoch = _producer(stage)
    records = batch(
        stage,
        b"v",
        transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
    )
    stage.send(produce(stage.topic(), records, acks=-1))


@case("base offset of its own")
def base_offset(stage: Stage) -> None:
    topic = stage.topic()
    stage.send(produce(topic, batch(stage, b"a", base_offset=77)))
    stage.send(fetch(topic))


case.requests(
    {
        "no topics": lambda stage: ProduceRequest(acks=1, timeout_ms=1000),
        "no partitions": lambda stage: ProduceRequest(
            acks=1, topic_data=[TopicProduceData(filled_topic(stage).name, filled_topic(stage).id)]
        ),
        "null records": lambda stage: produce(filled_topic(stage), None, partition=1),
        "empty records": lambda stage: produce(filled_topic(stage), b"", partition=1),
        "records of 10 bytes": lambda stage: produce(filled_topic(stage), b"x" * 10, partition=1),
        "unknown topic": lambda stage: produce(unknown_topic(stage), batch(stage, b"a")),
        "unknown topic, acks=all": lambda stage: produce(
            unknown_topic(stage), batch(stage, b"a"), acks=-1
        ),
        "neither name nor id": lambda stage: produce(no_topic(), batch(stage, b"a")),
        "unknown partition": lambda stage: produce(
            filled_topic(stage), batch(stage, b"a"), partition=9
        ),
        "negative partition": lambda stage: produce(
            filled_topic(stage), batch(stage, b"a"), partition=-1
        ),
        "acks=2": lambda stage: produce(
            filled_topic(stage), batch(stage, b"a"), partition=1, acks=2
        ),
        "acks=-2": lambda stage: produce(
            filled_topic(stage), batch(stage, b"a"), partition=1, acks=-2
        ),
    }
)
case.requests(
    {
        "an id that is another topic's name's": lambda stage: ProduceRequest(
            acks=1,
            topic_data=[
                TopicProduceData("", UNKNOWN_ID, [PartitionProduceData(0, batch(stage, b"a"))])
            ],
        ),
    },
    since=13,
)
case.include(transactional_produce.case)
