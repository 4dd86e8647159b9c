"""Appends to a metadata log of Apache Kafka: the batches, offsets and epochs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kwire.codecs.batches import BatchHeader, Record, iter_batches, records
from kwire.log.directory import kraft_log
from kwire.log.directory.files import Files
from kwire.log.directory.kraft_log import KraftLog
from tests.log.configs import DEFAULTS
from tests.log.directory.conftest import NOW_MS

GOLDEN = Path(__file__).parent.parent / "data" / "kraft-4.3.1"
LATER_MS = NOW_MS + 5


def write(folder: Path, *changes: list[bytes]) -> None:
    """Open the metadata log and append each of the changes."""
    log = KraftLog(folder, Files(), DEFAULTS, NOW_MS)
    for values in changes:
        log.append(values, LATER_MS)
    log.close()


def batches(folder: Path, segment: int = 0) -> list[tuple[BatchHeader, list[Record]]]:
    data = (folder / f"{segment:020}.log").read_bytes()
    return [(header, list(records(data, position))) for position, header in iter_batches(data)]


def test_append_to_apache_kafkas_log_has_the_epoch_of_its_last_leader(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "__cluster_metadata-0"))
    before = (folder / f"{49:020}.log").read_bytes()
    write(folder, [b"one", b"two"])
    write(folder, [b"three"])
    assert (folder / f"{49:020}.log").read_bytes().startswith(before)
    *_, (first, two), (second, one) = batches(folder, 49)
    assert [(header.base_offset, header.last_offset) for header in (first, second)] == [
        (78, 79),
        (80, 80),
    ]
    for header in (first, second):
        assert (header.partition_leader_epoch, header.magic, header.attributes) == (2, 2, 0)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert header.max_timestamp == LATER_MS
    records_read = [(each.offset, each.key, each.value, each.headers) for each in (*two, *one)]
    assert records_read == [
        (78, None, b"one", []),
        (79, None, b"two", []),
        (80, None, b"three", []),
    ]


def test_append_to_an_empty_log_has_epoch_0(tmp_path: Path) -> None:
    write(tmp_path, [b"one"])
    ((header, _),) = batches(tmp_path)
    assert (header.base_offset, header.partition_leader_epoch) == (0, 0)


def test_torn_end_is_cut_before_an_append(tmp_path: Path) -> None:
    write(tmp_path, [b"one"], [b"two"])
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    write(tmp_path, [b"three"])
    assert [record.value for _, found in batches(tmp_path) for record in found] == [
        b"one",
        b"three",
    ]


def test_append_without_records_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path, [], [b"one"], [])
    assert len(batches(tmp_path)) == 1


def test_record_above_the_default_max_message_bytes_is_appended(tmp_path: Path) -> None:
    """max.message.bytes does not apply; the metadata log has the batch size of Apache Kafka."""
    large = bytes(2 * DEFAULTS.max_message_bytes)
    write(tmp_path, [b"one", large])
    assert [record.value for _, found in batches(tmp_path) for record in found] == [b"one", large]


@pytest.mark.parametrize("size_bytes", [0, 1, 40, 500, 1500])
def test_many_records_are_split_into_batches_of_the_maximum_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    monkeypatch.setattr(kraft_log, "BATCH_BYTES_MAX", 4096)
    values = [bytes([number % 251]) * size_bytes for number in range(1500)]
    values = values[: 100 if size_bytes > 100 else None]
    write(tmp_path, values)
    found = batches(tmp_path)
    assert len(found) > 1
    assert max(header.size_bytes for header, _ in found) <= 4096
    written = [record for _, made in found for record in made]
    assert [record.value for record in written] == values
    assert [record.offset for record in written] == list(range(len(values)))


def test_records_up_to_half_the_maximum_are_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change must be atomic, as a batch is."""
    monkeypatch.setattr(kraft_log, "BATCH_BYTES_MAX", 4096)
    write(tmp_path, [bytes(168)] * 10)
    assert [len(found) for _, found in batches(tmp_path)] == [10]
