"""Reads metadata logs that Apache Kafka wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.stores.kraft import records as of_brokers
from kwire.codecs.primitives import DecodeError
from kwire.conformance.kraft.metadata_log import WrittenMetadata, decode, decode_value
from tests.cluster.stores.kraft.recorded import NAMES, recording


@pytest.mark.parametrize("name", NAMES)
def test_log_has_the_records_that_a_broker_replays(name: str) -> None:
    log = recording(name).log
    expected = [
        record
        for batch in of_brokers.decode_batches(log)
        if not batch.is_control
        for record in batch.records
    ]
    found = [*decode(log)]
    assert [record.message for record in found] == expected
    assert len(found) > 90
    assert [each.offset for each in found] == sorted({each.offset for each in found})


def test_log_that_grows_is_read_once_and_only_in_whole_batches(tmp_path: Path) -> None:
    data = recording("from-4.4").log
    log = WrittenMetadata(tmp_path)
    assert log.read() == []
    found = []
    with (tmp_path / "00000000000000000000.log").open("ab") as file:
        for start in range(0, len(data), 777):
            file.write(data[start : start + 777])
            file.flush()
            found += log.read()
    assert found == [*decode(data)]
    assert log.read() == []


@pytest.mark.parametrize("value", [b"", b"\1", b"\2\2\0", b"\1\x7f\0"])
def test_other_values_are_refused(value: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_value(value)
