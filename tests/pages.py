"""Choose which pages of a file the kernel holds in memory."""

from __future__ import annotations

import ctypes
import mmap
import os

import pytest

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

TRIES = 20
"""The kernel keeps a page that another core has just written or is about to add to its lists."""


def forget_or_skip(fd: int) -> None:
    """Drop the whole file; skips the test where the system, or its file system, keeps a part."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("this system drops no pages when it is asked to")
    size_bytes = os.fstat(fd).st_size
    for _ in range(TRIES):
        os.fsync(fd)
        # A page on its way from the disk is not dropped, so all are read first.
        os.pread(fd, size_bytes, 0)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if not resident_pages(fd):
            return
    pytest.skip("this file system keeps its files in memory")


def read_exactly(fd: int, position: int, size_bytes: int) -> None:
    """Read these bytes into memory, and none beside them: the kernel reads nothing ahead.

    (To drop a piece of a file is no way to the same state: the kernel keeps its pages in folios of
    up to megabytes, and does not drop a folio of which only a part was named.)
    """
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(fd, size_bytes, position)


def resident_pages(fd: int) -> int:
    """How many pages of the file are in memory: mincore(2), which starts no reading.

    (RWF_NOWAIT, which the broker uses, has the kernel begin to read a page that is missing.)
    """
    size_bytes = os.fstat(fd).st_size
    if not size_bytes:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        pages = ctypes.create_string_buffer(-(-size_bytes // PAGE_BYTES))
        if libc.mincore(address, size_bytes, pages):
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(byte & 1 for byte in pages.raw)
    finally:
        libc.munmap(address, size_bytes)
