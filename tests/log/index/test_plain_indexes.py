"""Indexes of drawn entries give the answers of plain lists, at all places near the entries."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.log.directory.files import Files
from kwire.log.index.offset_index import OffsetIndex
from kwire.log.index.time_index import TimeIndex
from kwire.log.index.txn_index import ENTRY, AbortedTxn, TxnIndex

BASE = 100
SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_upper_bound_equals_that_of_a_list(seed: int) -> None:
    """The first entry at or after the end of the region, or None if the next segment has it."""
    chance = random.Random(seed)
    index = OffsetIndex(Path("never-written"), BASE, Files())
    positions = sorted(chance.sample(range(40), seed))
    for number, position in enumerate(positions):
        index.append(BASE + 3 * number, position)
    for position in range(42):
        for size in range(42 - position):
            behind = [n for n, at in enumerate(positions) if at >= position + size]
            wanted = BASE + 3 * behind[0] if behind else None
            assert index.upper_bound(position, size) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_time_index_equals_a_list_of_growing_timestamps(seed: int, tmp_path: Path) -> None:
    """An entry needs a larger timestamp and a later offset than the entry before."""
    chance = random.Random(seed)
    index = TimeIndex(tmp_path / "x.timeindex", BASE, Files())
    noted: list[tuple[int, int]] = []
    offset = BASE
    for _ in range(12):
        timestamp = chance.choice([-1, 0, *range(1, 30)])
        index.append(timestamp, offset)
        before, at = noted[-1] if noted else (-1, BASE - 1)
        if timestamp > before and offset > at:
            noted.append((timestamp, offset))
        offset += chance.choice([0, 1, 2])
    for sought in range(-2, 31):
        found = [entry for entry in noted if entry[0] <= sought]
        assert index.lookup(sought) == (found[-1] if found else (-1, BASE))
        assert index.floor(sought) == len(found) - 1
    index.save()
    for cut in range(offset + 1, BASE - 1, -1):
        index.truncate_to(cut)
        noted = [entry for entry in noted if entry[1] < cut]
        assert [index.at(number) for number in range(index.count)] == noted
        assert index.last() == (noted[-1] if noted else (-1, BASE))
        index.save()
        assert index.path.stat().st_size == 12 * len(noted)


def drawn(chance: random.Random) -> list[AbortedTxn]:
    """Transactions in the order of their markers, as a segment from BASE on may have them."""
    found, marker = [], BASE - 1
    for number in range(chance.randint(1, 5)):
        marker += chance.randint(1, 4)
        first = chance.randint(BASE - 5, marker)
        stable = chance.choice([marker + 1, chance.randint(BASE - 5, marker)])
        found.append(AbortedTxn(number, first, marker, stable))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_transaction_index_equals_a_list(seed: int, tmp_path: Path) -> None:
    entries = drawn(random.Random(seed))
    index = TxnIndex(tmp_path / "x.txnindex", BASE, Files())
    for entry in entries:
        index.append(entry)
    assert index.valid()
    for start in range(BASE - 6, BASE + 24):
        for end in range(start + 1, BASE + 24):
            complete = [n for n, entry in enumerate(entries) if entry.last_stable_offset >= end]
            looked_at = entries[: complete[0] + 1] if complete else entries
            found = [e for e in looked_at if e.last_offset >= start and e.first_offset < end]
            assert index.collect(start, end) == (found, bool(complete))
    for cut in range(BASE + 24, BASE - 1, -1):
        index.truncate_to(cut)
        entries = [entry for entry in entries if entry.last_offset < cut]
        again = TxnIndex(index.path, BASE, Files(), exists=True)
        assert index.entries == again.entries == entries


def is_right(entries: list[list[int]]) -> bool:
    """Kafka's check: all of version 0, the markers ascending, each behind its data."""
    markers = [BASE - 1, *(entry[3] for entry in entries)]
    return (
        all(entry[0] == 0 and entry[2] <= entry[3] for entry in entries)
        and sorted(set(markers)) == markers
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_validity_of_a_transaction_index_equals_that_of_the_rules(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "x.txnindex"
    right = [[0, *entry] for entry in drawn(chance)]
    outcomes = set()
    for number in range(len(right)):
        for field, values in ((0, (0, 1, 255, 256)), (2, range(97, 124)), (3, range(97, 124))):
            for value in values:
                entries = [list(entry) for entry in right]
                entries[number][field] = value
                path.write_bytes(b"".join(ENTRY.pack(*entry) for entry in entries))
                wanted = is_right(entries)
                assert TxnIndex(path, BASE, Files(), exists=True).valid() == wanted
                outcomes.add(wanted)
    assert outcomes == {True, False}
    data = b"".join(ENTRY.pack(*entry) for entry in right)
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        assert TxnIndex(path, BASE, Files(), exists=True).valid() == (size % ENTRY.size == 0)


def test_released_transactions_are_read_again(tmp_path: Path) -> None:
    """An entry that is not in the file yet stays in memory."""
    index = TxnIndex(tmp_path / "x.txnindex", BASE, Files())
    first, second = AbortedTxn(1, 100, 101, 102), AbortedTxn(2, 103, 104, 105)
    index.release()
    assert index.entries == []
    index.append(first)
    index.release()
    assert index.entries == [first]
    index.entries.append(second)
    index.release()
    assert index.entries == [first, second]
    index.save()
    assert TxnIndex(index.path, BASE, Files(), exists=True).entries == [first, second]
