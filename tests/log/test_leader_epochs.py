"""The cache of leader epochs: where epochs begin and end, and what a truncation leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.log.directory.files import Files
from kwire.log.leader_epochs import LeaderEpochCache

Entries = list[tuple[int, int]]

THREE: Entries = [(1, 0), (3, 5), (6, 9)]
END = 12
UNKNOWN = (-1, -1)


def cache(folder: Path, entries: Entries) -> LeaderEpochCache:
    made = LeaderEpochCache(folder, Files())
    for epoch, start_offset in entries:
        made.add(epoch, start_offset)
    return made


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, UNKNOWN),
        (0, (0, 0)),  # before all that is known: nothing of it is left
        (1, (1, 5)),
        (2, (1, 5)),
        (3, (3, 9)),
        (5, (3, 9)),
        (6, (6, END)),
        (7, UNKNOWN),
    ],
)
def test_epoch_ends_at_the_start_of_the_next_or_at_the_log_end(
    tmp_path: Path, epoch: int, end: tuple[int, int]
) -> None:
    assert cache(tmp_path, THREE).end_offset_for(epoch, END) == end


@pytest.mark.parametrize("epoch", [-1, 0, 4])
def test_end_of_an_epoch_is_unknown_without_entries(tmp_path: Path, epoch: int) -> None:
    assert cache(tmp_path, []).end_offset_for(epoch, END) == UNKNOWN


def test_epoch_of_an_offset_is_the_last_that_began_at_or_before_it(tmp_path: Path) -> None:
    epochs = cache(tmp_path, [(3, 5), (6, 9)])
    epochs_found = [epochs.epoch_for(offset) for offset in (4, 5, 8, 9, 30)]
    assert epochs_found == [None, 3, 3, 6, 6]


@pytest.mark.parametrize(
    ("offset", "left"),
    [(12, 3), (10, 3), (9, 2), (8, 2), (6, 2), (5, 1), (1, 1), (0, 0)],
)
def test_truncation_removes_epochs_that_began_at_or_after_it(
    tmp_path: Path, offset: int, left: int
) -> None:
    epochs = cache(tmp_path, THREE)
    epochs.truncate_from_end(offset)
    assert epochs.entries == THREE[:left]
    latest = THREE[left - 1][0] if left else -1
    assert epochs.latest_epoch == latest
    assert epochs.end_offset_for(latest, offset) == ((latest, offset) if left else UNKNOWN)
    assert epochs.end_offset_for(6, offset) == ((6, offset) if left == 3 else UNKNOWN)


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, THREE),
        (4, [(1, 4), (3, 5), (6, 9)]),
        (5, [(3, 5), (6, 9)]),
        (6, [(3, 6), (6, 9)]),
        (9, [(6, 9)]),
        (12, [(6, 12)]),
    ],
)
def test_moved_log_start_removes_epochs_that_ended_before_it(
    tmp_path: Path, offset: int, left: Entries
) -> None:
    epochs = cache(tmp_path, THREE)
    epochs.truncate_from_start(offset)
    assert epochs.entries == left
    assert epochs.latest_epoch == 6
    first = left[0][0]
    assert epochs.end_offset_for(first - 1, END) == (first - 1, left[0][1])


def test_log_start_before_the_first_entry_changes_nothing(tmp_path: Path) -> None:
    epochs = cache(tmp_path, [(3, 5), (6, 9)])
    epochs.truncate_from_start(4)
    assert epochs.entries == [(3, 5), (6, 9)]


@pytest.mark.parametrize(
    ("epoch", "offset", "left"),
    [
        (6, 9, THREE),
        (6, 11, THREE),
        (6, 7, [(1, 0), (3, 5), (6, 7)]),
        (7, 10, [*THREE, (7, 10)]),
        (7, 9, [(1, 0), (3, 5), (7, 9)]),  # no record is of epoch 6
        (7, 5, [(1, 0), (7, 5)]),
        (3, 10, [(1, 0), (3, 10)]),
        (2, 10, [(1, 0), (2, 10)]),
        (7, 0, [(7, 0)]),
    ],
)
def test_new_epoch_removes_contradicting_entries(
    tmp_path: Path, epoch: int, offset: int, left: Entries
) -> None:
    epochs = cache(tmp_path, THREE)
    epochs.add(epoch, offset)
    assert (epochs.entries, epochs.latest_epoch) == (left, left[-1][0])


def test_file_has_new_epochs_at_once_and_removals_after_a_flush(tmp_path: Path) -> None:
    epochs = cache(tmp_path, THREE[:2])
    epochs.assign(*THREE[2])

    def kept() -> tuple[Entries, int]:
        again = LeaderEpochCache(tmp_path, Files())
        again.load()
        return again.entries, again.latest_loaded

    assert kept() == (THREE, 6)
    epochs.truncate_from_end(9)
    assert kept() == (THREE, 6), "loading the log removes the entry again"
    epochs.flush()
    assert kept() == (THREE[:2], 3)
    epochs.clear()
    epochs.flush()
    assert kept() == ([], -1)
