"""The records of a consumer group, as Apache Kafka 4.3.1 encodes them: a key and a value a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.groups.consumer.records import RECORDS, ConsumerGroupEpoch
from kwire.groups.record_format import VERSION, UnreadableRecord

LINES = (Path(__file__).parent / "data" / "records-4.3.1.txt").read_text().splitlines()
BY_TYPE = {record.TYPE: record for record in RECORDS}


@pytest.mark.parametrize("line", LINES)
def test_consumer_records_of_apache_kafka_encode_to_the_same_bytes(line: str) -> None:
    key, value = map(bytes.fromhex, line.split())
    kind = BY_TYPE[VERSION.unpack_from(key)[0]]
    assert kind.decode(key, value).encode() == (key, value)
    deleted = kind.decode(key, None)
    assert deleted.value is None
    assert deleted.encode() == (key, None)


def test_recorded_lines_cover_each_consumer_record_type() -> None:
    assert {VERSION.unpack_from(bytes.fromhex(line))[0] for line in LINES} == BY_TYPE.keys()
    assert sorted(BY_TYPE) == [3, 4, 5, 6, 7, 8, 16]


def test_consumer_record_of_an_unknown_version_is_unreadable() -> None:
    with pytest.raises(UnreadableRecord, match="unknown version 1"):
        ConsumerGroupEpoch.decode(b"\0\x03\0\x01g", b"\0\x01\0\0\0\x01\0")
