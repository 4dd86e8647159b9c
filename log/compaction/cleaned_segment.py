"""Writes the segment that replaces a group of segments: `.cleaned` files, flushed at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kwire.codecs.batches import read_header
from kwire.log.compaction.task import GroupCleaned
from kwire.log.directory import files as names
from kwire.log.directory.files import Files
from kwire.log.index.offset_index import OffsetIndex
from kwire.log.index.time_index import TimeIndex
from kwire.log.index.txn_index import AbortedTxn, TxnIndex

_WRITE_BYTES = 1 << 20
_NO_TIMESTAMP = -1


class CleanedSegment:
    """A segment to which batches are added in order; `finish` writes the rest and flushes it."""

    def __init__(
        self, directory: Path, base_offset: int, files: Files, index_interval_bytes: int
    ) -> None:
        """Create the empty `.cleaned` files; files of an earlier attempt are removed.

        `base_offset` is that of the first segment that is replaced. Raises OSError.
        """
        self._files = files
        self._index_interval_bytes = index_interval_bytes
        self.base_offset = base_offset
        self.directory = directory
        self._path = self._cleaned(names.LOG)
        self._offset_index = OffsetIndex(self._cleaned(names.OFFSET_INDEX), base_offset, files)
        self._time_index = TimeIndex(self._cleaned(names.TIME_INDEX), base_offset, files)
        self._txn_index = TxnIndex(self._cleaned(names.TXN_INDEX), base_offset, files)
        for path in (self._path, self._txn_index.path):
            files.remove(path)  # of an earlier try
        self._offset_index.create()
        self._time_index.create()
        self._file = files.open(self._path)
        self._pending: list[bytes | bytearray | memoryview] = []
        self._written_bytes = 0
        self.size_bytes = 0
        self._bytes_since_index = 0
        self._max_timestamp = _NO_TIMESTAMP
        self._max_timestamp_offset = base_offset

    def _cleaned(self, suffix: str) -> Path:
        return self.directory / (names.segment_file_name(self.base_offset, suffix) + names.CLEANED)

    def add(self, batch: bytes | bytearray | memoryview) -> None:
        """Append a batch, and add its index entries (see `Segment.note_batch`)."""
        header = read_header(batch)
        position = self.size_bytes
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_timestamp_offset = header.last_offset
        if self._bytes_since_index > self._index_interval_bytes:
            self._offset_index.append(header.last_offset, position)
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += header.size_bytes
        self._pending.append(batch)
        self.size_bytes = position + header.size_bytes
        if self.size_bytes - self._written_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self._files.write_all(self._file, b"".join(self._pending), self._written_bytes)
        self._written_bytes = self.size_bytes
        self._pending.clear()

    def finish(
        self, sources: list[int], aborted: Sequence[AbortedTxn], modified_ns: int
    ) -> GroupCleaned:
        """Flush all files; the .log file gets the modification time of its last source."""
        self._write()
        self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
        opened = [self._file, self._offset_index.save(), self._time_index.save()]
        kept = [self._path, self._offset_index.path, self._time_index.path]
        if aborted:
            self._txn_index.entries.extend(aborted)
            opened.append(self._txn_index.save())
            kept.append(self._txn_index.path)
        for file in opened:
            if file is not None:
                self._files.fsync(file.fd)
        os.utime(self._path, ns=(modified_ns, modified_ns))
        return GroupCleaned(
            sources,
            self.size_bytes,
            [path.name for path in kept],
            self._max_timestamp,
            self._max_timestamp_offset,
        )

    def remove(self) -> None:
        """Remove the files after an aborted round."""
        for path in (
            self._offset_index.path,
            self._time_index.path,
            self._txn_index.path,
            self._path,
        ):
            self._files.remove(path)
