"""Messages are encoded and decoded as by Apache Kafka, from recorded values and bytes.

data/vectors.jsonl.gz: values and bytes, ten of each message and version: empty, long, with values
at the edges of their types, and short ones.
data/damaged.jsonl.gz: damaged messages, and what Kafka reads in them or that it refuses them.

`make upgrade` (tools/upgrade/vectors.py) writes both, by the reference, and by Apache Kafka 3.9.2
for the messages of ZooKeeper mode.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kwire.codecs.__main__ import check_file
from kwire.codecs.json_form import Json, first_difference, to_json
from kwire.codecs.messages import message_class
from kwire.codecs.primitives import DecodeError

DATA = Path(__file__).parent / "data"

# What Kafka's JSON leaves out, or states as a size.
RECORDS = {"records", "recordsSizeInBytes", "unalignedRecords", "unalignedRecordsSizeInBytes"}


@pytest.mark.slow
def test_recorded_messages_of_apache_kafka_are_read_and_written() -> None:
    faults, count = check_file(DATA / "vectors.jsonl.gz")
    assert not faults
    assert count == 7970


def without_records(json: Json) -> Json:
    if isinstance(json, dict):
        return {k: without_records(v) for k, v in json.items() if k not in RECORDS}
    return [without_records(each) for each in json] if isinstance(json, list) else json


@pytest.mark.slow
def test_damaged_messages_are_read_or_refused_as_by_apache_kafka() -> None:
    refused = 0
    with gzip.open(DATA / "damaged.jsonl.gz") as file:
        for line in file:
            damaged = json.loads(line)
            name, version = damaged["message"], damaged["version"]
            data = bytes.fromhex(damaged["hex"])
            if "refused" in damaged:
                refused += 1
                with pytest.raises(DecodeError):
                    message_class(name).decode(data, version)
                continue
            message, end = message_class(name).read(data, version)
            found = without_records(to_json(message, version))
            assert first_difference(without_records(damaged["json"]), found) is None, damaged
            assert end == damaged["end"], damaged
    assert refused > 600
