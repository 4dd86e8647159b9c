"""What is in memory is told from what is not, and can be brought there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.log.reading.residency import PROBE_EVERY_BYTES, is_resident, read_in
from tests.pages import forget, forget_or_skip

SIZE_BYTES = 4 * 1024 * 1024


@pytest.fixture
def cold_file(tmp_path: Path) -> Iterator[int]:
    """A file none of whose pages is in memory."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, bytes(SIZE_BYTES), 0)
    forget_or_skip(fd)
    yield fd
    os.close(fd)


def test_what_was_just_written_is_there(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb+", buffering=0) as file:
        file.write(bytes(1_000_000))
        assert is_resident(file.fileno(), 0, 1_000_000)
        assert is_resident(file.fileno(), 999_999, 1)
        assert is_resident(file.fileno(), 5, 0)


def test_what_was_dropped_is_not_until_it_is_read_in(cold_file: int) -> None:
    read_in(cold_file, 1000, 300_000)
    assert is_resident(cold_file, 1000, 300_000)


def test_nothing_is_there_wherever_it_is(cold_file: int) -> None:
    assert is_resident(cold_file, SIZE_BYTES // 2, 0)


def test_a_single_byte_is_looked_at(cold_file: int) -> None:
    assert not is_resident(cold_file, SIZE_BYTES // 2, 1)


def test_a_hole_in_the_middle_is_seen(cold_file: int) -> None:
    read_in(cold_file, 0, SIZE_BYTES)
    middle = SIZE_BYTES // 2
    forget(cold_file, middle, 2 * PROBE_EVERY_BYTES)
    assert not is_resident(cold_file, 0, SIZE_BYTES)
    assert is_resident(cold_file, 0, middle)


def test_a_hole_at_the_very_end_is_seen(cold_file: int) -> None:
    read_in(cold_file, 0, SIZE_BYTES)
    end = SIZE_BYTES - 2 * PROBE_EVERY_BYTES
    forget(cold_file, SIZE_BYTES - 4096, 4096)
    assert not is_resident(cold_file, end, SIZE_BYTES - end)
    assert is_resident(cold_file, end, SIZE_BYTES - end - 4096)
    forget(cold_file, SIZE_BYTES - 4096, 4096)
    assert not is_resident(cold_file, end, SIZE_BYTES - end - 4095), "its first byte"


def test_reading_in_ends_with_the_file(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb+", buffering=0) as file:
        file.write(bytes(10))
        read_in(file.fileno(), 0, 1_000_000)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_system_that_cannot_say_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with open(tmp_path / "file", "wb+", buffering=0) as file:
        monkeypatch.setattr("kwire.log.reading.residency.os.preadv", refuse)
        assert is_resident(file.fileno(), 0, 10)
