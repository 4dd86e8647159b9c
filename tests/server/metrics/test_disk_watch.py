"""Which calls on log files are timed, and how many each stands for."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from kwire.log.directory.files import Files
from kwire.server.metrics.disk import MANY_WRITES, TICKS_A_SAMPLE, DiskWatch
from kwire.server.metrics.meters import DiskMeter

CALL_NS = 3
UNUSED_DESCRIPTOR = 2**30


def watched() -> tuple[Files, DiskMeter, DiskWatch]:
    """Files each call of which takes CALL_NS."""
    files, meter = Files(), DiskMeter()
    return files, meter, DiskWatch(files, meter, count(step=CALL_NS).__next__)


def write(files: Files, path: Path, times: int) -> None:
    file = files.open(path)
    for _ in range(times):
        assert files.pwrite(file.fd, b"x", 0) == 1


def test_reads_flushes_and_writes_are_timed(tmp_path: Path) -> None:
    files, meter, watch = watched()
    file = files.open(tmp_path / "a")
    write(files, tmp_path / "a", 2)
    assert files.pread(file.fd, 1, 0) == b"x"
    files.fsync(file.fd)
    watch.tick()
    taken = [(each.count, each.sum) for each in (meter.append, meter.read, meter.flush)]
    assert taken == [(2, 2 * CALL_NS), (1, CALL_NS), (1, CALL_NS)]


def test_few_writes_are_all_timed(tmp_path: Path) -> None:
    files, meter, watch = watched()
    for _ in range(3 * TICKS_A_SAMPLE):
        write(files, tmp_path / "a", MANY_WRITES)
        watch.tick()
    assert meter.append.count == 3 * TICKS_A_SAMPLE * MANY_WRITES


def test_sample_of_many_writes_stands_for_all(tmp_path: Path) -> None:
    files, meter, watch = watched()
    many, ticks = MANY_WRITES + 1, 5 * TICKS_A_SAMPLE  # one round of the gaps
    write(files, tmp_path / "a", many)
    watch.tick()
    assert meter.append.count == many
    for _ in range(ticks):
        write(files, tmp_path / "a", many)
        watch.tick()
    assert meter.append.count == many + ticks * many


def test_writes_are_all_timed_again_when_they_are_few(tmp_path: Path) -> None:
    files, meter, watch = watched()
    write(files, tmp_path / "a", MANY_WRITES + 1)
    watch.tick()
    for _ in range(2 * TICKS_A_SAMPLE):
        watch.tick()
    before = meter.append.count
    write(files, tmp_path / "a", 1)
    watch.tick()
    assert meter.append.count == before + 1


def test_failed_call_is_timed_and_raises() -> None:
    files, meter, watch = watched()
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.fsync(UNUSED_DESCRIPTOR)
    watch.tick()
    assert meter.flush.count == 1
