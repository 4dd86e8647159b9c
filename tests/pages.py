"""Have the kernel drop pages of files that it holds in memory."""

from __future__ import annotations

import os

import pytest

from kwire.log.reading.residency import is_resident

TRIES = 10
"""A page that another core has just written to may be kept once."""


def forget(fd: int, position: int = 0, size_bytes: int | None = None) -> None:
    """Drop what is held of these bytes, by default of all; they must be within the file.

    They are read first: the kernel does not drop a page that is on its way from the disk, and a
    look by `is_resident` has it begin to read.
    """
    if size_bytes is None:
        size_bytes = os.fstat(fd).st_size - position
    os.fsync(fd)
    os.pread(fd, size_bytes, position)
    os.posix_fadvise(fd, position, size_bytes, os.POSIX_FADV_DONTNEED)


def forget_or_skip(fd: int) -> None:
    """Drop the whole file; skips the test where the system, or its file system, keeps it all."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("this system drops no pages when it is asked to")
    size_bytes = os.fstat(fd).st_size
    for _ in range(TRIES):
        forget(fd)
        if not size_bytes or not is_resident(fd, 0, size_bytes):
            forget(fd)
            return
    pytest.skip("this file system keeps its files in memory")
