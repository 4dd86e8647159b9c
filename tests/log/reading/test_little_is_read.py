"""A lookup in a long segment reads a few kilobytes around its result, at any position.

The answers would be the same without indexes, and without places that are remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.control import ControlType, control_batch
from kwire.log import (
    Log,
    Origin,
    aborted_transactions,
    end_offset_for_epoch,
    epoch_for,
    max_timestamp_offset,
    offset_for_timestamp,
    truncate_to,
)
from kwire.log.directory.files import Files
from tests.descriptors import path_of
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS

if TYPE_CHECKING:
    from tests.log.conftest import Append, OpenLog

CONFIG = log_config(index_interval_bytes=2000)
BATCHES = 300
PLACES = (0, 1, 3, 4, BATCHES // 2, BATCHES - 2, BATCHES - 1)
LITTLE_BYTES = 24_000


class Counting(Files):
    """Counts the bytes read of `.log` files, and the calls."""

    def __init__(self) -> None:
        self.size_bytes = self.calls = 0

    def pread(self, fd: int, size: int, pos: int) -> bytes:
        data = Files.pread(fd, size, pos)
        if path_of(fd).endswith(".log"):
            self.size_bytes += len(data)
            self.calls += 1
        return data

    def read_by(self, what: Callable[[], object]) -> int:
        before = self.size_bytes
        what()
        return self.size_bytes - before


@pytest.fixture
def disk() -> Counting:
    return Counting()


@pytest.fixture
def log(open_log: OpenLog, append: Append, disk: Counting) -> Log:
    """A segment of batches of a kilobyte; the last two are a transaction of another epoch."""
    log = open_log(CONFIG, files=disk)
    for number in range(BATCHES - 2):
        append(log, size=900, timestamp=NOW_MS + number)
    append(
        log,
        leader_epoch=1,
        timestamp=NOW_MS + BATCHES,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    abort = control_batch(ControlType.ABORT, 0, producer_id=1, producer_epoch=0, timestamp=NOW_MS)
    log.append(abort, leader_epoch=1, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    log.close()
    assert log.segments.size_bytes > 10 * LITTLE_BYTES
    return log


@pytest.fixture
def again(log: Log, open_log: OpenLog, disk: Counting) -> Callable[[], Log]:
    """Open the log again, with nothing of it in memory."""

    def opened() -> Log:
        return open_log(CONFIG, files=disk, clean=True, recovery_point=BATCHES)

    return opened


def test_opening_a_log_reads_little(again: Callable[[], Log], disk: Counting) -> None:
    assert 0 < disk.read_by(again) < LITTLE_BYTES


@pytest.mark.parametrize("place", PLACES)
def test_offset_lookup_reads_little(again: Callable[[], Log], disk: Counting, place: int) -> None:
    log = again()

    def read() -> None:
        assert log.read(place, 10**6, max_offset=BATCHES, min_one_batch=True) is not None

    assert disk.read_by(read) < LITTLE_BYTES
    assert disk.read_by(read) == 0, "the position is remembered"


@pytest.mark.parametrize("place", PLACES)
def test_max_offset_lookup_reads_little(
    again: Callable[[], Log], disk: Counting, place: int
) -> None:
    log = again()

    def read() -> None:
        found = log.read(0, 10**6, max_offset=place + 1, min_one_batch=True)
        assert found is None or found.size_bytes

    assert disk.read_by(read) < 2 * LITTLE_BYTES
    assert disk.read_by(read) == 0, "the position is remembered"


@pytest.mark.parametrize("place", PLACES)
def test_timestamp_lookup_reads_little(
    again: Callable[[], Log], disk: Counting, place: int
) -> None:
    log = again()

    def look_up() -> None:
        found = offset_for_timestamp(log, NOW_MS + place)
        assert found is not None
        assert found.offset == min(place, BATCHES - 2)

    assert 0 < disk.read_by(look_up) < 2 * LITTLE_BYTES
    assert 0 < disk.read_by(look_up) < 2 * LITTLE_BYTES


def test_largest_timestamp_lookup_reads_little(again: Callable[[], Log], disk: Counting) -> None:
    log = again()
    assert 0 < disk.read_by(lambda: max_timestamp_offset(log)) < LITTLE_BYTES
    assert 0 < disk.read_by(lambda: max_timestamp_offset(log)) < LITTLE_BYTES


def test_epochs_and_aborted_transactions_are_checked_once(
    again: Callable[[], Log], disk: Counting
) -> None:
    """Both are compared with the batches, once."""
    log = again()
    for look_up in (
        lambda: end_offset_for_epoch(log, 0),
        lambda: aborted_transactions(log, 0, BATCHES),
    ):
        assert 0 < disk.read_by(look_up) < 2 * LITTLE_BYTES
        assert disk.read_by(look_up) == 0
    assert disk.read_by(lambda: epoch_for(log, BATCHES - 1)) == 0


def test_truncation_near_the_end_reads_little(
    again: Callable[[], Log], disk: Counting, append: Append
) -> None:
    """The earlier producer state is rebuilt from a snapshot and the records after it."""
    log = again()
    log.roll(NOW_MS)
    for _ in range(3):
        append(log, size=900)
    assert disk.read_by(lambda: truncate_to(log, BATCHES + 2, NOW_MS)) < LITTLE_BYTES


def test_appends_and_waiting_reads_read_nothing(
    open_log: OpenLog, append: Append, disk: Counting
) -> None:
    """A reader at the log end needs no read from disk while batches are appended."""
    log = open_log(log_config(segment_bytes=20_000), files=disk)
    for number in range(100):
        append(log, size=900, timestamp=NOW_MS + number)
        end = log.log_end_offset
        assert log.read(end, 10**6, max_offset=end, min_one_batch=True) is None
        append(log, size=900, timestamp=NOW_MS + number)
        assert log.read(end, 10**6, max_offset=end + 1, min_one_batch=True) is not None
    assert len(log.segments) > 5
    assert (disk.size_bytes, disk.calls) == (0, 0)


def test_epoch_rebuild_skips_segments_of_one_epoch(
    open_log: OpenLog, append: Append, disk: Counting, log_dir: Path
) -> None:
    """If the epochs file is lost, segments in which no epoch begins are not scanned."""
    config = log_config(segment_bytes=50_000)
    log = open_log(config, files=disk)
    for number in range(400):
        append(log, size=900, leader_epoch=number // 120)
    log.close()
    log.epochs.path.unlink()
    assert len(log.segments) > 6

    def open_again() -> None:
        again = open_log(config, files=disk, clean=True)
        assert again.epochs.entries == [(0, 0), (1, 120), (2, 240), (3, 360)]

    assert disk.read_by(open_again) < 5 * 50_000
