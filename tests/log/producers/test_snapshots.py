"""The producer snapshots that a log keeps, writes and loads equal those of plain sets."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import crc32c
import pytest

from kwire.log.directory.files import Files
from kwire.log.error import CorruptFile
from kwire.log.producers import snapshot
from kwire.log.producers.entry import ProducerEntry, WrittenBatch
from kwire.log.producers.snapshots import ProducerSnapshots
from kwire.log.producers.state import ProducerState

NOW_MS = 1_700_000_000_000


def state(offset: int) -> ProducerState:
    """The state of one producer, whose last batch is the one before `offset`."""
    producers = ProducerState()
    producers.end_offset = offset
    batch = WrittenBatch(offset, offset - 1, 0, NOW_MS)
    producers.entries[7] = ProducerEntry(7, 0, -1, NOW_MS, -1, [batch])
    return producers


def there(folder: Path) -> set[int]:
    return {int(path.stem) for path in folder.glob("*.snapshot")}


@pytest.fixture
def snapshots(tmp_path: Path) -> ProducerSnapshots:
    """Snapshots at 0, 3, 5 and 9."""
    found = ProducerSnapshots(tmp_path, Files())
    for offset in (0, 3, 5, 9):
        found.take(state(offset))
    return found


def test_snapshot_is_taken_once_for_each_new_end_offset(
    snapshots: ProducerSnapshots, tmp_path: Path
) -> None:
    """No snapshot is taken again, or below an existing one."""
    assert there(tmp_path) == snapshots.offsets == snapshots.unsynced == {0, 3, 5, 9}
    snapshots.synced({0, 9})
    for offset in (9, 8):
        snapshots.take(state(offset))
    assert there(tmp_path) == snapshots.offsets == {0, 3, 5, 9}
    assert snapshots.unsynced == {3, 5}
    assert snapshots.drop(3) == tmp_path / f"{3:020d}.snapshot"
    assert snapshots.drop(4) is None
    assert (snapshots.offsets, snapshots.unsynced) == ({0, 5, 9}, {5})
    snapshots.take(state(10))
    assert (there(tmp_path), snapshots.latest()) == ({0, 3, 5, 9, 10}, 10)


BOUNDS = list(itertools.combinations_with_replacement((-1, 0, 1, 3, 4, 5, 9, 10), 2))


@pytest.mark.parametrize(("first", "last"), BOUNDS)
def test_snapshots_outside_the_log_are_removed(
    snapshots: ProducerSnapshots, tmp_path: Path, first: int, last: int
) -> None:
    """Also at the log start, before which there is nothing; those above the end are taken again."""
    snapshots.remove_outside(first, last)
    kept = {offset for offset in (0, 3, 5, 9) if first < offset <= last}
    assert there(tmp_path) == snapshots.offsets == kept
    snapshots.take(state(last + 1))
    assert there(tmp_path) == kept | {last + 1}


@pytest.mark.parametrize("bases", [(), (0,), (3, 5), (0, 9), (0, 10), (0, 5, 8)])
def test_snapshots_without_a_segment_are_removed(
    snapshots: ProducerSnapshots, tmp_path: Path, bases: tuple[int, ...]
) -> None:
    """Snapshots at segment starts are kept, and the newest one if it is after all of them."""
    snapshots.remove_strays(bases)
    wanted = {offset for offset in (0, 3, 5, 9) if offset in bases}
    if max(bases, default=0) <= 9:
        wanted.add(9)
    assert there(tmp_path) == snapshots.offsets == wanted


@pytest.mark.parametrize("spoiled", [(), (9,), (9, 5), (9, 5, 3, 0)])
@pytest.mark.parametrize("how", ["cut", "gone"])
def test_newest_readable_snapshot_is_loaded(
    snapshots: ProducerSnapshots, tmp_path: Path, spoiled: tuple[int, ...], how: str
) -> None:
    for offset in spoiled:
        path = snapshots.path(offset)
        path.unlink() if how == "gone" else path.write_bytes(path.read_bytes()[:-1])
    again = ProducerSnapshots(tmp_path, Files(), (0, 3, 5, 9))
    producers = state(99)
    again.load_latest(producers, 2, NOW_MS)
    left = {0, 3, 5, 9} - set(spoiled)
    begins = max(left, default=2)
    assert there(tmp_path) == again.offsets == left
    assert producers.end_offset == begins
    known = [entry.last_offset for entry in producers.entries.values()]
    assert known == ([begins - 1] if left else [])
    again.take(producers)
    assert there(tmp_path) == left, "it is there, or it would say nothing"
    again.take(state(begins + 1))
    assert there(tmp_path) == left | {begins + 1}


def test_snapshot_entries_are_read_as_written() -> None:
    """Fields may be 0 or absent; the order of producers is kept."""
    made = []
    for number, (last_offset, txn, least) in enumerate(
        itertools.product((None, 0, 1, 2**40), (-1, 0, 7), (0, 1))
    ):
        batch = WrittenBatch(least, last_offset or 0, least, NOW_MS)
        kept = None if last_offset is None else [batch]
        made.append(ProducerEntry(number, least, least - 1, NOW_MS, txn, kept))
    found = snapshot.decode(snapshot.encode(reversed(made)))
    names = ("producer_id", "epoch", "coordinator_epoch", "last_timestamp", "txn_first_offset",
             "batches", "next_sequence")  # fmt: skip
    assert [[getattr(each, name) for name in names] for each in found] == [
        [getattr(each, name) for name in names] for each in made
    ]


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 3])
def test_snapshot_with_a_wrong_entry_count_is_corrupt(count: int) -> None:
    entry = struct.pack(">qhiqiqiq", 5, 0, 3, 9, 0, NOW_MS, 0, -7)
    body = struct.pack(">i", count) + 2 * entry
    data = struct.pack(">hI", 1, crc32c.crc32c(body)) + body
    if count == 2:
        assert [each.txn_first_offset for each in snapshot.decode(data)] == [-1, -1]
        return
    with pytest.raises(CorruptFile):
        snapshot.decode(data)


def fresh(entry: ProducerEntry) -> ProducerEntry:
    """Return a copy that was never written to a snapshot."""
    copied = ProducerEntry(
        entry.producer_id,
        entry.epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        entry.txn_first_offset,
        list(entry.batches),
    )
    assert copied.packed is None
    return copied


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda entry: entry.add(1, WrittenBatch(9, 20, 0, 7)), id="batch"),
        pytest.param(lambda entry: entry.set_epoch(5), id="epoch"),
        pytest.param(lambda entry: entry.begin_transaction(30), id="begin"),
        pytest.param(lambda entry: entry.end_transaction(1, 4, 8), id="end, same epoch"),
        pytest.param(lambda entry: entry.end_transaction(2, 4, 8), id="end, next epoch"),
    ],
)
def test_snapshot_has_each_change_since_the_last_one(
    change: Callable[[ProducerEntry], None],
) -> None:
    """Unchanged entries keep their bytes, so each change must drop them."""
    changed = ProducerEntry(1, 1, -1, 5, 10, [WrittenBatch(3, 12, 2, 5)])
    other = ProducerEntry(2, 0, -1, 5, -1, [WrittenBatch(0, 13, 0, 5)])
    before = snapshot.encode([changed, other])
    change(changed)
    after = snapshot.encode([changed, other])
    assert after != before
    assert after == snapshot.encode([fresh(changed), fresh(other)])
