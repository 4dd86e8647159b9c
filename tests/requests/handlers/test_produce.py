"""Produce: repeated, missing and unknown partitions, invalid acks and invalid records."""

from __future__ import annotations

import struct

import crc32c
import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import Compression, Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.context import Context
from kwire.requests.handlers import produce
from tests.requests.handlers.node import Node, as_received

UNKNOWN_ID = bytes(range(16))


def send(
    node: Node,
    *topics: TopicProduceData,
    version: int,
    client_id: str | None = None,
    acks: int = 1,
) -> ProduceResponse:
    """The response, which must not wait."""
    wire = bytearray(ProduceRequest(None, acks, 1000, list(topics)).encode(version))
    request = ProduceRequest.decode(wire, version)  # the buffer is stamped in place
    key = ApiKey.PRODUCE
    context = Context("PLAINTEXT", "127.0.0.1", "test-1", api_key=key, api_version=version)
    context.client_id = client_id
    reply = produce.handle(node.broker, request, context)
    assert isinstance(reply, ProduceResponse)
    return as_received(reply, version)


def batch(value: bytes) -> PartitionProduceData:
    return PartitionProduceData(0, build([Record(0, 1000, None, value)]))


def told(reply: ProduceResponse) -> list[tuple[str, int, int, int]]:
    """(topic, partition, error, base offset)."""
    return [
        (topic.name, answer.index, answer.error_code, answer.base_offset)
        for topic in reply.responses
        for answer in topic.partition_responses
    ]


def test_repeated_partition_is_written_once_with_its_last_entry(node: Node) -> None:
    node.create("t")
    first, second = batch(b"first"), batch(b"second")
    reply = send(node, TopicProduceData("t", ZERO_UUID, [first, second]), version=9)
    assert told(reply) == [("t", 0, ErrorCode.NONE, 0)]
    region = node.partition("t").log.read(0, 1000, max_offset=10, min_one_batch=True)
    assert region is not None
    assert b"second" in region.read()
    assert node.partition("t").log.log_end_offset == 1


def test_produce_response_leaves_out_a_topic_without_partitions(node: Node) -> None:
    node.create("t")
    assert send(node, TopicProduceData("t", ZERO_UUID, []), version=9).responses == []


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("index", [9, -1])
def test_produce_to_an_unknown_partition_returns_an_error(
    node: Node, version: int, index: int
) -> None:
    topic_id = node.create("t")
    data = TopicProduceData("t", topic_id, [PartitionProduceData(index, batch(b"v").records)])
    (answer,) = send(node, data, version=version).responses[0].partition_responses
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["__share_group_state", "__transaction_state"])
async def test_produce_to_consumer_offsets_is_refused(node: Node, name: str) -> None:
    node.create(name)
    reply = send(node, TopicProduceData(name, ZERO_UUID, [batch(b"v")]), version=12)
    assert told(reply) == [(name, 0, ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]
    assert node.partition(name).log.log_end_offset == 0


def test_produce_to_an_unknown_topic_id_returns_an_error(node: Node) -> None:
    (topic,) = send(node, TopicProduceData("", UNKNOWN_ID, [batch(b"v")]), version=13).responses
    assert topic.topic_id == UNKNOWN_ID
    assert topic.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("client_id", "error", "offset"),
    [
        (None, ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        ("anyone", ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        ("__admin_client", ErrorCode.NONE, 0),
    ],
)
async def test_produce_to_internal_topics_is_refused(
    node: Node, client_id: str | None, error: ErrorCode, offset: int
) -> None:
    node.create("__transaction_state")
    data = TopicProduceData("__transaction_state", ZERO_UUID, [batch(b"x")])
    reply = send(node, data, version=9, client_id=client_id)
    assert told(reply) == [("__transaction_state", 0, error, offset)]


@pytest.mark.parametrize(("version", "lost"), [(12, 3), (13, 100)])
def test_invalid_acks_are_refused_for_existing_partitions(
    node: Node, version: int, lost: int
) -> None:
    data = batch(b"v")
    places = [data, PartitionProduceData(9, data.records)]
    topic_id = node.create("t")
    topics = [
        TopicProduceData("t", topic_id, places),
        TopicProduceData("u", UNKNOWN_ID, [data]),
        TopicProduceData("t", topic_id, []),
    ]
    reply = send(node, *topics, version=version, acks=2)
    errors = [[a.error_code for a in topic.partition_responses] for topic in reply.responses]
    assert errors == [[ErrorCode.INVALID_REQUIRED_ACKS, 3], [lost]]


@pytest.mark.parametrize("there", [True, False])
def test_batch_with_invalid_magic_fails_the_whole_request(node: Node, there: bool) -> None:
    """Apache Kafka looks for transactional batches in all partitions first; one is malformed."""
    if there:
        node.create("t")
    wrong = build([Record(0, 1000, None, b"v")])
    wrong[16] = 3
    places = [batch(b"v"), PartitionProduceData(1, wrong)]
    reply = send(node, TopicProduceData("t", ZERO_UUID, places), version=9)
    assert told(reply) == [("t", index, ErrorCode.CORRUPT_MESSAGE, -1) for index in (0, 1)]
    message = reply.responses[0].partition_responses[0].error_message
    assert message == "Invalid magic found in record: 3"


def test_invalid_records_are_reported_before_invalid_acks(node: Node) -> None:
    node.create("t")
    two = PartitionProduceData(0, build([Record(0, 1000, None, b"v")]) * 2)
    for place, error in (
        (two, ErrorCode.INVALID_RECORD),
        (batch(b"v"), ErrorCode.INVALID_REQUIRED_ACKS),
        (PartitionProduceData(0, None), ErrorCode.INVALID_RECORD),
    ):
        reply = send(node, TopicProduceData("t", ZERO_UUID, [place]), version=9, acks=2)
        assert told(reply) == [("t", 0, error, -1)]


@pytest.mark.parametrize(
    ("version", "error"),
    [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.INVALID_REQUIRED_ACKS)],
)
def test_unknown_codecs_are_reported_before_invalid_acks(
    node: Node, version: int, error: ErrorCode
) -> None:
    node.create("t")
    zstd = build([Record(0, 1000, None, b"v")], compression=Compression.ZSTD)
    topic = TopicProduceData("t", ZERO_UUID, [PartitionProduceData(0, zstd)])
    assert told(send(node, topic, version=version, acks=2)) == [("t", 0, error, -1)]


@pytest.mark.parametrize(
    ("version", "error"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)]
)
def test_zstd_is_accepted_since_v7(node: Node, version: int, error: ErrorCode) -> None:
    node.create("t")
    zstd = build([Record(0, 1000, None, b"v")], compression=Compression.ZSTD)
    topic = TopicProduceData("t", ZERO_UUID, [PartitionProduceData(0, zstd)])
    offset = -1 if error else 0
    assert told(send(node, topic, version=version)) == [("t", 0, error, offset)]


@pytest.mark.parametrize(
    ("version", "error"),
    [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.INVALID_RECORD)],
)
def test_codec_of_an_empty_batch_is_checked(node: Node, version: int, error: ErrorCode) -> None:
    node.create("t")
    header = build([Record(0, 1000, None, b"v")], compression=Compression.ZSTD)[:61]
    struct.pack_into(">i", header, 8, 61 - 12)
    struct.pack_into(">I", header, 17, crc32c.crc32c(bytes(header[21:])))
    topic = TopicProduceData("t", ZERO_UUID, [PartitionProduceData(0, header)])
    assert told(send(node, topic, version=version)) == [("t", 0, error, -1)]


def test_produce_response_has_an_error_for_each_invalid_record(node: Node) -> None:
    """Record errors as of KIP-467."""
    node.create("t", cleanup_policy="compact")
    made = [Record(at, 1000, key, b"v") for at, key in enumerate([None, b"k", None])]
    topic = TopicProduceData("t", ZERO_UUID, [PartitionProduceData(0, build(made))])
    ((answer,),) = (each.partition_responses for each in send(node, topic, version=9).responses)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    why = "Compacted topic cannot accept message without key in topic partition t-0"
    assert [(e.batch_index, e.batch_index_error_message) for e in answer.record_errors] == [
        (0, why),
        (2, why),
    ]


def test_old_message_format_is_not_transactional(node: Node) -> None:
    node.create("t")
    old = bytearray(80)
    old[8:12] = (80 - 12).to_bytes(4, "big")
    old[16], old[22] = 1, 0x17
    for version in (3, 9):
        reply = send(
            node, TopicProduceData("t", ZERO_UUID, [PartitionProduceData(0, old)]), version=version
        )
        assert told(reply) == [("t", 0, ErrorCode.INVALID_RECORD, -1)]
