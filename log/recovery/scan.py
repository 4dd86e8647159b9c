"""Reads the batches of a segment file in order: the headers only, or all bytes with a CRC check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kwire.codecs.batch_layout import HEADER_SIZE, LOG_OVERHEAD
from kwire.codecs.batches import BatchHeader, CorruptBatch, check_crc, read_header
from kwire.log.reading.region import read_exactly

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile

WINDOW_BYTES = 4 * 1024
"""The bytes of one read when one batch is searched: the usual distance of two index entries."""

WINDOW_BYTES_MAX = 1024 * 1024
"""The bytes of one read when a whole segment is read; a smaller window grows up to this."""


def headers(
    files: Files, file: OpenFile, position: int, end: int, window_bytes: int = WINDOW_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch from `position`, where one starts, to `end`.

    Stops before a batch that does not end at or before `end`.  Raises CorruptBatch for an invalid
    header.
    """
    window = b""
    start = position  # of the window in the file
    while position < end:
        at = position - start
        if at + HEADER_SIZE > len(window):
            if 0 < at < len(window):  # there are many small batches, so larger reads pay
                window_bytes = min(2 * window_bytes, WINDOW_BYTES_MAX)
            start, at = position, 0
            window = read_exactly(files, file, start, min(window_bytes, end - start))
        header = read_header(window, at)
        next_position = position + header.length + LOG_OVERHEAD
        if next_position > end:
            return
        yield position, header
        position = next_position


def batches(
    files: Files, file: OpenFile, position: int, end: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch with a valid CRC, up to the first invalid one.

    Raises CorruptBatch at an invalid batch, or one that is cut short by `end`.
    """
    window = memoryview(b"")
    start = position
    while position < end:
        at = position - start
        if at + HEADER_SIZE > len(window):
            start, at = position, 0
            window = _window(files, file, start, min(WINDOW_BYTES_MAX, end - start))
        header = read_header(window, at)
        size = header.length + LOG_OVERHEAD
        if position + size > end:
            raise CorruptBatch(f"a batch of {size} bytes is cut short after {end - position}")
        if at + size > len(window):
            start, at = position, 0
            window = _window(files, file, start, max(size, min(WINDOW_BYTES_MAX, end - start)))
        check_crc(window, at, header)
        yield position, header, window[at : at + size]
        position += size


def _window(files: Files, file: OpenFile, position: int, size_bytes: int) -> memoryview:
    return memoryview(read_exactly(files, file, position, size_bytes))
