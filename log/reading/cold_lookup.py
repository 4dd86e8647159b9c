"""Finding an offset in a segment that is not in memory, without holding up the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.log.index.offset_index import OffsetIndex
from kwire.log.reading import residency
from kwire.log.recovery.scan import WINDOW_BYTES

if TYPE_CHECKING:
    from kwire.log.segment import Segment


class ColdLookup:
    """What a look-up of `offset` in `segment` will read, for a thread to read first.

    It opens files of its own and touches nothing of the segment's, which stays the loop's.
    """

    __slots__ = ("_base_offset", "_files", "_index_path", "_log_path", "_offset", "_size_bytes")

    def __init__(self, segment: Segment, offset: int) -> None:
        self._files = segment.files
        self._base_offset = segment.base_offset
        self._index_path = segment.offset_index.path
        self._log_path = segment.path
        self._size_bytes = segment.size_bytes
        self._offset = offset

    def read_in(self) -> None:
        """Bring the index and the batches around the offset into memory; waits for the disk.

        Whatever is wrong with the files shows, and is told, when they are used.
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
    """None if looking up `offset` in `segment` reads nothing from the disk."""
    file = segment.file
    if file is not None and segment.offset_index.is_loaded:
        _, position = segment.offset_index.lookup(offset)
        size_bytes = min(WINDOW_BYTES, segment.size_bytes - position)
        if _is_resident(file.fd, position, size_bytes):
            return None
    return ColdLookup(segment, offset)


def _is_resident(fd: int, position: int, size_bytes: int) -> bool:
    try:
        return residency.is_resident(fd, position, size_bytes)
    except OSError:
        return True  # the look-up itself finds out, and tells
