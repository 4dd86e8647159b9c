"""`is_resident` says whether a range of a file is in memory, and `read_in` brings it there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.log.reading.residency import PROBE_EVERY_BYTES, is_resident, read_in
from tests.pages import PAGE_BYTES, TRIES, forget_or_skip, read_exactly

SIZE_BYTES = 4 * 1024 * 1024


@pytest.fixture
def cold_file(tmp_path: Path) -> Iterator[int]:
    """A file with no page in memory."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, bytes(SIZE_BYTES), 0)
    forget_or_skip(fd)
    yield fd
    os.close(fd)


def test_written_bytes_are_resident(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb+", buffering=0) as file:
        file.write(bytes(1_000_000))
        assert is_resident(file.fileno(), 0, 1_000_000)
        assert is_resident(file.fileno(), 999_999, 1)
        assert is_resident(file.fileno(), 5, 0)


def test_dropped_pages_are_resident_after_read_in(cold_file: int) -> None:
    read_in(cold_file, 1000, 300_000)
    assert is_resident(cold_file, 1000, 300_000)


def test_empty_range_is_resident(cold_file: int) -> None:
    assert is_resident(cold_file, SIZE_BYTES // 2, 0)


def is_found_missing(fd: int, held: list[tuple[int, int]], start: int, size_bytes: int) -> bool:
    """Whether `is_resident` denies the range, when only the `held` ranges are in memory.

    A check of a missing page has the kernel read it, and a quick disk has sometimes read it before
    the kernel looks again.  Then the answer is yes, rightly, so the question is put again.
    """
    for _ in range(TRIES):
        forget_or_skip(fd)
        for position, length in held:
            read_exactly(fd, position, length)
            assert is_resident(fd, position, length)
        if not is_resident(fd, start, size_bytes):
            return True
    return False


def test_residency_of_a_single_byte_is_checked(cold_file: int) -> None:
    assert is_found_missing(cold_file, [], SIZE_BYTES // 2, 1)


def test_nonresident_pages_in_the_middle_are_found(cold_file: int) -> None:
    middle = SIZE_BYTES // 2
    after = middle + 2 * PROBE_EVERY_BYTES
    held = [(0, middle), (after, SIZE_BYTES - after)]
    assert is_found_missing(cold_file, held, 0, SIZE_BYTES)


@pytest.mark.parametrize("size_bytes", [PAGE_BYTES, 1], ids=["whole page", "first byte"])
def test_nonresident_last_page_is_found(cold_file: int, size_bytes: int) -> None:
    start = SIZE_BYTES - 2 * PROBE_EVERY_BYTES
    held = SIZE_BYTES - PAGE_BYTES - start
    assert is_found_missing(cold_file, [(start, held)], start, held + size_bytes)


def test_read_in_stops_at_the_end_of_the_file(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb+", buffering=0) as file:
        file.write(bytes(10))
        read_in(file.fileno(), 0, 1_000_000)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_all_is_resident_without_rwf_nowait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with open(tmp_path / "file", "wb+", buffering=0) as file:
        monkeypatch.setattr("kwire.log.reading.residency.os.preadv", refuse)
        assert is_resident(file.fileno(), 0, 10)
