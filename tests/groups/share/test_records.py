"""The records of a share group, as Apache Kafka 4.3.1 wrote them: a key and a value a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.groups.record_format import VERSION
from kwire.groups.records import SHARE_GROUP, decode
from kwire.groups.share.initializing import StateTopics
from kwire.groups.share.records import RECORDS, StatePartitions

LINES = (Path(__file__).parent / "data" / "records-4.3.1.txt").read_text().splitlines()
BY_TYPE = {record.TYPE: record for record in RECORDS}


@pytest.mark.parametrize("line", LINES)
def test_share_records_of_apache_kafka_encode_to_the_same_bytes(line: str) -> None:
    key, value = map(bytes.fromhex, line.split())
    record = decode(key, value)
    assert isinstance(record, BY_TYPE[VERSION.unpack_from(key)[0]])
    assert record.encode() == (key, value)
    deleted = decode(key, None)
    assert deleted is not None
    assert deleted.encode() == (key, None)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("000f")])
def test_share_state_partitions_of_apache_kafka_encode_to_the_same_bytes(line: str) -> None:
    record = StatePartitions.decode(*map(bytes.fromhex, line.split()))
    assert StateTopics.of(record).to_record(record.key.group_id).encode() == record.encode()


def test_recorded_lines_cover_each_share_record_type() -> None:
    assert {VERSION.unpack_from(bytes.fromhex(line))[0] for line in LINES} == BY_TYPE.keys()
    assert BY_TYPE.keys() == SHARE_GROUP
