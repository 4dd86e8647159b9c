"""Batches that Apache Kafka and its clients wrote are read, and written with the same bytes.

golden/batches.tsv comes from golden/WriteBatches.java (`java -cp "<Kafka's libs>/*" <file>`).
golden/clients.tsv holds what an Apache Kafka 4.3.1 broker stored of three clients' records:
librdkafka 2.16.0, kafka-python 3.0.12 and Apache Kafka's console producer 4.3.1.
"""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path

import pytest

from kwire.codecs.batches import (
    HEADER_SIZE,
    Compression,
    ControlType,
    EndTxnMarker,
    Record,
    TimestampType,
    build,
    check_crc,
    control_batch,
    iter_batches,
    read_header,
    read_marker,
    recompress,
    records,
)
from kwire.codecs.compression import decompress

GOLDEN = Path(__file__).parent / "golden"
T = 1_700_000_000_000
HEADERS = [("h", b"1"), ("h", None), ("cl\u00e9", b"\0\xff")]
FEW = [
    Record(42, T, b"k0", b"v0"),
    Record(43, T + 5, None, b"value-1"),
    Record(44, T - 3, b"k2", None),
    Record(45, T + 100_000, b"", b"", HEADERS),
    Record(46, T + 2, b"k4", b"x" * 300),
]
MANY = [Record(i, T + i, b"key-%d" % i, b"x" * 100) for i in range(1500)]
APPEND_TIME = T + 777


def load(name: str) -> dict[str, bytes]:
    lines = (line.split("\t") for line in (GOLDEN / name).read_text().splitlines())
    return {batch: base64.b64decode(data) for batch, data in lines}


BATCHES = load("batches.tsv")
CLIENTS = load("clients.tsv")
CODECS = {codec.name.lower(): codec for codec in Compression}
LEGACY = [name for name in BATCHES if name.startswith(("v0-", "v1-"))]


def with_timestamps(expected: list[Record], timestamp: int) -> list[Record]:
    return [Record(r.offset, timestamp, r.key, r.value, r.headers) for r in expected]


@pytest.mark.parametrize("codec", CODECS)
def test_java_batch_of_every_codec_is_read(codec: str) -> None:
    batch = BATCHES[f"v2-few-{codec}"]
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.compression == CODECS[codec]
    assert (header.base_offset, header.last_offset, header.records_count) == (42, 46, 5)
    assert (header.base_timestamp, header.max_timestamp) == (T, T + 100_000)
    assert (header.partition_leader_epoch, header.producer_id, header.base_sequence) == (7, -1, -1)
    assert header.timestamp_type == TimestampType.CREATE_TIME
    assert header.size_bytes == len(batch)
    assert list(records(batch)) == FEW


@pytest.mark.parametrize(
    ("name", "codec"),
    [("gzip", "gzip"), ("snappy", "snappy"), ("lz4", "lz4"), ("lz4-12", "lz4"), ("zstd", "zstd")],
)
def test_java_batch_of_several_compressed_blocks_is_read(name: str, codec: str) -> None:
    batch = BATCHES[f"v2-many-{name}"]
    assert read_header(batch).compression == CODECS[codec]
    assert list(records(batch)) == MANY


def test_uncompressed_batch_has_the_bytes_of_java() -> None:
    built = build(FEW, base_offset=42, partition_leader_epoch=7)
    assert bytes(built) == BATCHES["v2-few-none"]
    producer = partial(
        build, FEW, base_offset=42, partition_leader_epoch=7, producer_id=9000, producer_epoch=3
    )
    built = producer(base_sequence=2147483646)
    assert bytes(built) == BATCHES["idempotent"]
    built = producer(base_sequence=17, transactional=True)
    assert bytes(built) == BATCHES["transactional"]
    built = build(
        FEW,
        base_offset=42,
        partition_leader_epoch=7,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp=APPEND_TIME,
    )
    assert bytes(built) == BATCHES["v2-log-append-time"]


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_compressed_batch_has_the_frame_and_content_of_java(codec: str) -> None:
    """The frame's header and the content are those of Java. Compressed bytes may differ."""
    golden = BATCHES[f"v2-many-{codec}"]
    built = build(MANY, partition_leader_epoch=7, compression=CODECS[codec])
    same = {"gzip": 10, "snappy": 16, "lz4": 7, "zstd": 6}[codec]
    assert built[HEADER_SIZE : HEADER_SIZE + same] == golden[HEADER_SIZE : HEADER_SIZE + same]
    plain = decompress(CODECS[codec], golden[HEADER_SIZE:])
    assert decompress(CODECS[codec], built[HEADER_SIZE:]) == plain
    assert read_header(built)._replace(crc=0, length=0) == read_header(golden)._replace(
        crc=0, length=0
    )


@pytest.mark.parametrize("codec", CODECS)
def test_recompress_changes_only_the_codec(codec: str) -> None:
    batch = recompress(BATCHES["v2-few-gzip"], CODECS[codec])
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.compression == CODECS[codec]
    assert list(records(batch)) == FEW
    if codec == "none":
        assert bytes(batch) == BATCHES["v2-few-none"]


def test_records_of_a_log_append_time_batch_have_its_timestamp() -> None:
    batch = BATCHES["v2-log-append-time"]
    assert read_header(batch).timestamp_type == TimestampType.LOG_APPEND_TIME
    assert list(records(batch)) == with_timestamps(FEW, APPEND_TIME)


def test_sequence_numbers_start_again_after_the_largest() -> None:
    assert read_header(BATCHES["idempotent"]).last_sequence == 2
    assert read_header(BATCHES["transactional"]).last_sequence == 21
    assert read_header(BATCHES["v2-few-none"]).last_sequence == -1


@pytest.mark.parametrize("kind", list(ControlType))
def test_marker_has_the_bytes_of_java(kind: ControlType) -> None:
    batch = BATCHES[kind.name.lower()]
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    [marker] = records(batch)
    assert read_marker(marker) == EndTxnMarker(kind, coordinator_epoch=5)
    built = control_batch(
        kind,
        5,
        producer_id=9000,
        producer_epoch=3,
        timestamp=T,
        base_offset=42,
        partition_leader_epoch=7,
    )
    assert bytes(built) == batch


@pytest.mark.parametrize("name", LEGACY)
def test_messages_of_magic_0_and_1_are_read(name: str) -> None:
    batch = BATCHES[name]
    found: list[Record] = []
    for pos, header in iter_batches(batch):
        check_crc(batch, pos, header)
        assert header.magic == int(name[1])
        found += records(batch, pos)
    expected = [Record(r.offset, r.timestamp, r.key, r.value) for r in FEW]
    if name.startswith("v0-"):
        expected = with_timestamps(expected, -1)
    elif "log-append-time" in name:
        expected = with_timestamps(expected, APPEND_TIME)
    assert found == expected


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "java"])
def test_batches_of_other_clients_are_read(client: str, codec: str) -> None:
    stored = CLIENTS[f"{client}-{codec}"]
    [(pos, header)] = iter_batches(stored)
    check_crc(stored, pos, header)
    assert header.compression == CODECS[codec]
    found = list(records(stored))
    assert [record.key for record in found] == [b"key-%d" % i for i in range(12)]
    assert [record.headers for record in found] == [[("h", b"%d" % i)] for i in range(12)]
    expected = [b"value %d of a client " % i * 3 for i in range(12)]
    assert [record.value for record in found] == expected


def test_stored_transactions_of_librdkafka_are_read() -> None:
    stored = CLIENTS["librdkafka-transactions"]
    found = []
    for pos, header in iter_batches(stored):
        check_crc(stored, pos, header)
        assert header.is_transactional
        for record in records(stored, pos):
            marker = read_marker(record) if header.is_control else None
            found.append((record.offset, marker.kind if marker else None))
    assert found == [
        (0, None),
        (1, None),
        (2, ControlType.COMMIT),
        (3, None),
        (4, None),
        (5, ControlType.ABORT),
    ]
