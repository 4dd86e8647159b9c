"""The three indexes: formats, lookups, truncation, and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.log.directory.files import Files
from kwire.log.index.offset_index import OffsetIndex
from kwire.log.index.time_index import TimeIndex
from kwire.log.index.txn_index import AbortedTxn, TxnIndex
from tests.log.crashing_disk import CrashingDisk

BASE = 100


@pytest.fixture
def offsets(tmp_path: Path) -> OffsetIndex:
    index = OffsetIndex(tmp_path / "00000000000000000100.index", BASE, Files())
    for offset, position in ((103, 50), (110, 90), (111, 300)):
        index.append(offset, position)
    return index


@pytest.fixture
def times(tmp_path: Path) -> TimeIndex:
    index = TimeIndex(tmp_path / "00000000000000000100.timeindex", BASE, Files())
    for timestamp, offset in ((1000, 103), (2000, 110), (2000, 120), (1500, 130), (3000, 140)):
        index.append(timestamp, offset)
    return index


def test_offset_index_has_kafkas_format(offsets: OffsetIndex) -> None:
    assert offsets.save() is not None
    assert offsets.path.read_bytes() == struct.pack(">iiiiii", 3, 50, 10, 90, 11, 300)


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (99, (BASE, 0)),
        (100, (BASE, 0)),
        (102, (BASE, 0)),
        (103, (103, 50)),
        (109, (103, 50)),
        (110, (110, 90)),
        (111, (111, 300)),
        (5000, (111, 300)),
    ],
)
def test_offset_lookup_returns_the_last_entry_at_or_before_it(
    offsets: OffsetIndex, offset: int, found: tuple[int, int]
) -> None:
    assert offsets.lookup(offset) == found


@given(st.sets(st.integers(1, 200)), st.integers(0, 210))
def test_offset_lookup_equals_that_of_a_list(entries: set[int], sought: int) -> None:
    index = OffsetIndex(Path("never-written"), BASE, Files())
    for entry in sorted(entries):
        index.append(BASE + entry, entry * 10)
    wanted = max((entry for entry in entries if entry <= sought), default=0)
    assert index.lookup(BASE + sought) == (BASE + wanted, wanted * 10)
    index.truncate_to(BASE + sought)
    left = [index.at(n)[0] - BASE for n in range(index.count)]
    assert left == sorted(entry for entry in entries if entry < sought)
    assert index.last() == ((BASE + left[-1], left[-1] * 10) if left else (BASE, 0))


def test_upper_bound_is_the_first_entry_at_or_after_the_end(offsets: OffsetIndex) -> None:
    assert offsets.upper_bound(0, 50) == 103
    assert offsets.upper_bound(0, 51) == 110
    assert offsets.upper_bound(90, 210) == 111
    assert offsets.upper_bound(90, 211) is None


def test_time_index_adds_only_larger_timestamps(times: TimeIndex) -> None:
    times.save()
    wanted = struct.pack(">qiqiqi", 1000, 3, 2000, 10, 3000, 40)
    assert times.path.read_bytes() == wanted


def test_time_lookup_returns_the_last_entry_at_or_before_it(times: TimeIndex) -> None:
    assert times.lookup(999) == (-1, BASE)
    assert times.lookup(1000) == (1000, 103)
    assert times.lookup(2999) == (2000, 110)
    assert times.lookup(9999) == (3000, 140)
    times.truncate_to(140)
    assert times.last() == (2000, 110)
    times.truncate_to(0)
    assert times.last() == (-1, BASE)


def test_save_writes_only_new_entries(offsets: OffsetIndex) -> None:
    offsets.save()
    assert offsets.save() is None
    offsets.append(120, 400)
    assert offsets.dirty
    offsets.save()
    assert offsets.path.read_bytes()[-8:] == struct.pack(">ii", 20, 400)
    assert offsets.path.stat().st_size == 32


@pytest.mark.parametrize("keep", [0, 103, 110, 111, 112])
def test_save_after_a_truncation_writes_the_remaining_entries(
    offsets: OffsetIndex, keep: int
) -> None:
    offsets.save()
    offsets.truncate_to(keep)
    kept = offsets.count
    offsets.append(200, 900)
    offsets.save()
    again = OffsetIndex(offsets.path, BASE, Files())
    assert again.count == kept + 1
    assert again.last() == (200, 900)


def test_released_entries_are_read_again(offsets: OffsetIndex) -> None:
    offsets.release()
    assert offsets.count == 3, "what is not saved must be kept"
    offsets.save()
    offsets.release()
    assert offsets._data is None
    assert offsets.lookup(110) == (110, 90)


@pytest.mark.parametrize("tail", [b"\0" * 800, b"\0" * 3, b"\1\2\3"])
def test_zeros_and_torn_entries_at_the_end_are_ignored(
    offsets: OffsetIndex, times: TimeIndex, tail: bytes
) -> None:
    """Kafka preallocates 10 MB of zeros; a killed broker leaves them, and perhaps a torn entry."""
    for index in (offsets, times):
        index.save()
        before = index.path.read_bytes()
        index.path.write_bytes(before + tail)
        index.release()
        assert bytes(index.data) == before
        index.save()
        assert index.path.read_bytes() == before


def test_entry_that_ends_in_zeros_is_kept(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "index", 0, Files())
    index.append(5, 1 << 24)
    index.save()
    index.release()
    assert index.last() == (5, 1 << 24)


def test_transaction_index_has_kafkas_format(tmp_path: Path) -> None:
    index = TxnIndex(tmp_path / "x.txnindex", 0, Files())
    assert not index.path.exists(), "the first entry creates the file"
    index.append(AbortedTxn(7, 1, 5, 6))
    index.append(AbortedTxn(8, 3, 9, 2))
    wanted = struct.pack(">hqqqq", 0, 7, 1, 5, 6) + struct.pack(">hqqqq", 0, 8, 3, 9, 2)
    assert index.path.read_bytes() == wanted
    again = TxnIndex(index.path, 0, Files(), exists=True)
    assert again.entries == index.entries
    assert again.valid()


def test_collect_returns_the_aborted_transactions_of_a_range(tmp_path: Path) -> None:
    index = TxnIndex(tmp_path / "x.txnindex", 0, Files())
    first, second, third = (
        AbortedTxn(1, 0, 10, 11),
        AbortedTxn(2, 5, 20, 15),
        AbortedTxn(3, 15, 30, 31),
    )
    for entry in (first, second, third):
        index.append(entry)
    assert index.collect(0, 100) == ([first, second, third], False)
    assert index.collect(11, 15) == ([second], True)
    assert index.collect(0, 3) == ([first], True)
    assert index.collect(25, 31) == ([third], True)
    index.truncate_to(20)
    assert index.entries == [first]
    assert index.path.stat().st_size == 34
    index.reset()
    assert index.path.stat().st_size == 0


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 33,
        struct.pack(">hqqqq", 1, 7, 1, 5, 6),
        struct.pack(">hqqqq", 0, 7, 6, 5, 6),
        struct.pack(">hqqqq", 0, 7, 1, 5, 6) * 2,
        struct.pack(">hqqqq", 0, 7, -9, -5, 6),
        struct.pack(">hqqqq", 0, 7, -9, -1, 6),
    ],
)
def test_damaged_transaction_index_is_invalid(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.txnindex"
    path.write_bytes(content)
    assert not TxnIndex(path, 0, Files(), exists=True).valid()


def test_rebuilt_transaction_index_survives_a_power_cut(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    disk = CrashingDisk(tmp_path / "disk")
    index = TxnIndex(tmp_path / "disk" / "00000000000000000100.txnindex", BASE, disk)
    index.append(AbortedTxn(7, 100, 101, 102))
    folder = disk.open_folder(tmp_path / "disk")
    disk.fsync(folder.fd)
    found = [AbortedTxn(8, 100, 105, 106), AbortedTxn(9, 103, 110, 111)]
    index.replace(found)
    disk.left(tmp_path / "left")
    left = TxnIndex(tmp_path / "left" / index.path.name, BASE, Files(), exists=True)
    assert left.entries == found
