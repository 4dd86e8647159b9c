"""Reads the parts of a segment into memory that a lookup needs, in a thread.

A lookup on the loop then does not wait for the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.log.index.offset_index import OffsetIndex
from kwire.log.reading import residency
from kwire.log.recovery.scan import WINDOW_BYTES

if TYPE_CHECKING:
    from kwire.log.segment import Segment


class ColdLookup:
    """A lookup of `offset` in `segment`, whose bytes a thread reads first.

    It opens its own files, and does not use the state of the segment, which belongs to the loop.
    """

    __slots__ = ("_base_offset", "_files", "_index_path", "_log_path", "_offset", "_size_bytes")

    def __init__(self, segment: Segment, offset: int) -> None:
        """Note what the thread needs of the segment, which it must not touch itself."""
        self._files = segment.files
        self._base_offset = segment.base_offset
        self._index_path = segment.offset_index.path
        self._log_path = segment.path
        self._size_bytes = segment.size_bytes
        self._offset = offset

    def read_in(self) -> None:
        """Read the index and the batches around the offset into the page cache.

        It ignores errors of the disk: the lookup itself gets and reports them.
        """
        try:
            index = OffsetIndex(self._index_path, self._base_offset, self._files)
            _, position = index.lookup(self._offset)
            file = self._files.open_existing(self._log_path)
            size_bytes = min(WINDOW_BYTES, self._size_bytes - position)
            residency.read_in(file.fd, max(position, 0), size_bytes)
        except OSError:
            return


def cold_lookup(segment: Segment, offset: int) -> ColdLookup | None:
    """Return the cold lookup of `offset` in `segment`; None if all its bytes are in memory."""
    file = segment.file
    if file is not None and segment.offset_index.is_loaded:
        _, position = segment.offset_index.lookup(offset)
        size_bytes = min(WINDOW_BYTES, segment.size_bytes - position)
        if _is_resident(file.fd, position, size_bytes):
            return None
    return ColdLookup(segment, offset)


def _is_resident(fd: int, position: int, size_bytes: int) -> bool:
    """Return whether the bytes are in memory; also True if that cannot be determined."""
    try:
        return residency.is_resident(fd, position, size_bytes)
    except OSError:
        return True  # the lookup itself gets and reports the error
