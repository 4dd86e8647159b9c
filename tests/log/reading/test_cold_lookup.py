"""Before a lookup, a thread reads the pages that the lookup needs and that are not in memory."""

from __future__ import annotations

import errno
import os

import pytest

from kwire.log import Log
from kwire.log.reading import residency
from kwire.log.recovery.scan import WINDOW_BYTES
from tests.log.configs import log_config
from tests.log.conftest import Append, OpenLog

CONFIG = log_config(segment_bytes=1 << 22, index_interval_bytes=4096)
SIZE = 10_000


@pytest.fixture
def log(open_log: OpenLog, append: Append) -> Log:
    """A segment of some 2 MB with an index entry for each batch, and a short one after it."""
    log = open_log(CONFIG)
    for _ in range(200):
        append(log, size=SIZE)
    append(log)
    log.roll(1_700_000_000_000)
    append(log)
    return log


@pytest.fixture
def accesses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The ranges (position, bytes) that were checked or read in; no page is in memory."""
    found: list[tuple[int, int]] = []

    def note(_fd: int, position: int, size_bytes: int) -> bool:
        found.append((position, size_bytes))
        return False

    monkeypatch.setattr(residency, "is_resident", note)
    monkeypatch.setattr(residency, "read_in", note)
    return found


@pytest.mark.parametrize("offset", [0, 1, 77, 150, 199, 200])
@pytest.mark.parametrize("is_open", [True, False])
def test_cold_lookup_reads_the_batches_around_the_offset(
    log: Log, accesses: list[tuple[int, int]], offset: int, is_open: bool
) -> None:
    segment = log.segments.first
    batch = log.read(offset, 1, max_offset=201, min_one_batch=True)
    assert batch is not None
    if not is_open:
        segment.release()
    accesses.clear()
    cold = log.reader.cold_lookup(offset)
    assert cold is not None
    assert len(accesses) == is_open
    cold.read_in()
    assert len(accesses) == is_open + 1
    for position, size_bytes in accesses:
        assert position <= batch.position < position + size_bytes <= segment.size_bytes
        assert batch.position - position <= 2 * SIZE
        assert size_bytes == min(WINDOW_BYTES, segment.size_bytes - position)


def test_cold_lookup_is_skipped_if_residency_is_unknown(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    assert log.read(77, 1, max_offset=200, min_one_batch=True) is not None
    monkeypatch.setattr(residency, "is_resident", fail)
    monkeypatch.setattr(residency, "read_in", fail)
    assert log.reader.cold_lookup(77) is None
    log.segments.first.release()
    cold = log.reader.cold_lookup(77)
    assert cold is not None
    cold.read_in()  # an error here is left to the read that follows


def test_piece_of_a_region_has_its_position_in_the_file(
    log: Log, accesses: list[tuple[int, int]]
) -> None:
    region = log.read(77, 50_000, max_offset=200, min_one_batch=True)
    assert region is not None
    accesses.clear()
    assert not region.is_resident(1000, 2000)
    region.read_in(1000, 2000)
    assert accesses == [(region.position + 1000, 2000)] * 2
