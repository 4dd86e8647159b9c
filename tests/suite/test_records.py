"""Tests that records are read as they were written, with each client, codec and position."""

from __future__ import annotations

import pytest

from tests.suite.clients import Client, Record, without_time

HOUR_MS = 3_600_000
START_MS = 1_750_000_000_000

SHAPES = {
    "one": [Record(b"apples", b"fruit")],
    "many": [Record(b"%d" % number, b"%d" % (number % 7)) for number in range(300)],
    "large": [Record(bytes(range(256)) * 2_000), Record(b"x" * 700_000)],
    "empty": [Record(b"", b""), Record(b"")],
}


@pytest.mark.parametrize("acks", ["1", "all"])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("shape", SHAPES)
def test_records_of_each_writer_and_codec_are_read(
    client: Client, topic: str, shape: str, compression: str, acks: str
) -> None:
    client.write(topic, SHAPES[shape], compression=compression, acks=acks)
    assert without_time(client.read(topic, 0, 0, len(SHAPES[shape]))) == SHAPES[shape]


@pytest.mark.parametrize(
    "record",
    [
        Record(b"value", None),
        Record(None, b"a tombstone"),
        Record(b"value", "ключ".encode()),
        Record(b"value", b"key", (("one", b"1"), ("two", b""))),
        Record(b"value", b"key", (), START_MS),
    ],
    ids=["no key", "tombstone", "key", "headers", "time"],
)
def test_record_is_read_with_all_its_fields(client: Client, topic: str, record: Record) -> None:
    client.write(topic, [record])
    (read,) = client.read(topic, 0, 0, 1)
    if record.timestamp_ms is None:
        (read,) = without_time([read])
    assert read == record


@pytest.mark.parametrize("start", [0, 1, 57, 99])
def test_reading_begins_at_any_offset(client: Client, topic: str, start: int) -> None:
    client.write(topic, [Record(b"%d" % number) for number in range(100)])
    values = [record.value for record in client.read(topic, 0, start, 100 - start)]
    assert values == [b"%d" % number for number in range(start, 100)]


@pytest.mark.parametrize(("hours", "offset"), [(-1, 0), (0, 0), (1, 1), (1.5, 2), (3, 3)])
def test_offset_is_found_by_timestamp(
    client: Client, topic: str, hours: float, offset: int
) -> None:
    records = [Record(b"v", None, (), START_MS + hour * HOUR_MS) for hour in range(4)]
    client.write(topic, records)
    assert client.offset_at(topic, 0, START_MS + int(hours * HOUR_MS)) == offset


def test_first_and_end_offsets_are_reported(client: Client, topic: str) -> None:
    assert client.ends(topic, 0) == (0, 0)
    client.write(topic, [Record(b"1"), Record(b"2")])
    assert client.ends(topic, 0) == (0, 2)
