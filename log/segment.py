"""One segment of a log: consecutive batches in a `.log` file, with its three indexes.

Its files are named by its base offset in 20 digits.  Only the last segment of a log changes;
compaction replaces other segments whole.  A file is opened when it is needed, and a limited number
stays open (`OpenFiles`), because most segments are never read again.

An index entry is checked against the batch that it points to when it is used.  Indexes have no
checksum, and loading a log does not check those below the recovery point.  An index that is wrong
is rebuilt at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.codecs.batches import BatchHeader, CorruptBatch, read_header
from kwire.log.directory import files as names
from kwire.log.error import NotTakenBack
from kwire.log.index.offset_index import OffsetIndex
from kwire.log.index.time_index import TimeIndex
from kwire.log.index.txn_index import TxnIndex
from kwire.log.reading import time_check
from kwire.log.reading.region import OpenFiles, read_exactly
from kwire.log.recovery import scan

if TYPE_CHECKING:
    from kwire.log.config import LogConfig
    from kwire.log.directory.files import Files, OpenFile

_logger = logging.getLogger(__name__)

RELATIVE_OFFSET_MAX = 2**31 - 1
NO_TIMESTAMP = -1
_HEADER_WINDOW = 61


class Segment:
    """One segment; appends go to the last segment of a log.

    `first_timestamp` is the largest timestamp of the first batch, None before it is read.
    `created_ms` is the time when the file was created or opened.  The rule for rolling needs both.
    """

    __slots__ = (
        "_max_timestamp",
        "_max_timestamp_offset",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "dir",
        "file",
        "files",
        "first_timestamp",
        "index_bytes_max",
        "index_interval_bytes",
        "indexes_full",
        "offset_index",
        "open_files",
        "preallocated",
        "recently_used",
        "size_bytes",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        files: Files,
        open_files: OpenFiles,
        *,
        config: LogConfig,
        created_ms: int,
        size_bytes: int = 0,
        has_txn_index: bool = False,
    ) -> None:
        """Describe a segment of `size_bytes` in `directory`; no file is opened or read.

        `has_txn_index` says that the file of its transaction index exists.
        """
        self.dir = directory
        self.base_offset = base_offset
        self.files = files
        self.open_files = open_files
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self.index_interval_bytes = config.index_interval_bytes
        self.index_bytes_max = config.segment_index_bytes
        self.indexes_full = False
        self.file: OpenFile | None = None
        self.recently_used = True
        self.preallocated = False
        """Whether the file is longer than `size_bytes`: zeros follow, up to `segment.bytes`."""
        self.bytes_since_index = 0
        self.first_timestamp: int | None = None
        self._max_timestamp: int | None = None
        self._max_timestamp_offset = base_offset
        stem = f"{directory}/{names.segment_file_name(base_offset, '')}"
        self.offset_index = OffsetIndex(stem + names.OFFSET_INDEX, base_offset, files)
        self.time_index = TimeIndex(stem + names.TIME_INDEX, base_offset, files)
        self.txn_index = TxnIndex(stem + names.TXN_INDEX, base_offset, files, exists=has_txn_index)

    @classmethod
    def create(
        cls,
        directory: Path,
        base_offset: int,
        files: Files,
        open_files: OpenFiles,
        config: LogConfig,
        now_ms: int,
    ) -> Segment:
        """Create the files of a new, empty segment; existing files of these names are replaced.

        `preallocate` gives the .log file its full size at once.  As with Apache Kafka 4.3.1 on
        Linux, the file is sparse and takes no space on the disk.
        """
        segment = cls(directory, base_offset, files, open_files, config=config, created_ms=now_ms)
        files.remove(segment._path(names.TXN_INDEX))
        segment.offset_index.create()
        segment.time_index.create()
        file = segment.open()
        files.ftruncate(file.fd, 0)
        if config.preallocate:
            files.ftruncate(file.fd, config.segment_bytes)
            segment.preallocated = True
        segment._max_timestamp = NO_TIMESTAMP
        return segment

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size_bytes={self.size_bytes})"

    def _path(self, suffix: str) -> Path:
        return self.dir / names.segment_file_name(self.base_offset, suffix)

    @property
    def path(self) -> Path:
        """The .log file."""
        return self._path(names.LOG)

    # Files

    def open(self) -> OpenFile:
        """Return the .log file; opens it if necessary.  Raises OSError."""
        self.recently_used = True
        file = self.file
        if file is None:
            file = self.file = self.files.open(self.path)
            self.open_files.add(self)
        return file

    def move(self, directory: Path) -> None:
        """Use the new path of a renamed folder; open files stay open."""
        self.dir = directory
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.move(directory)

    def release(self) -> None:
        """Close the .log file, unless a region still uses it, and drop the cached indexes."""
        self.file = None
        self.offset_index.release()
        self.time_index.release()
        self.txn_index.release()

    def close(self) -> None:
        """Write the indexes and close the files."""
        self.save_indexes()
        self.discard()

    def discard(self) -> None:
        """Close the files without writing the indexes: the segment is removed or replaced."""
        self.open_files.discard(self)
        self.file = None

    def save_indexes(self) -> list[OpenFile]:
        """Write changed indexes; returns the files that were written, for an fsync."""
        if self.txn_index.dirty:
            self.txn_index.save()
        indexes = (self.offset_index, self.time_index)
        return [file for index in indexes if (file := index.save()) is not None]

    def complete_indexes(self) -> list[OpenFile]:
        """Write the indexes, with the largest timestamp, by which a later lookup finds the segment.

        The file of a segment that was not used since it was opened has the timestamp already.
        Returns the files that were written, for an fsync.
        """
        if self._max_timestamp is not None:
            self.time_index.append(self._max_timestamp, self._max_timestamp_offset)
        return self.save_indexes()

    def own(self) -> None:
        """Replace a .log file that snapshots share (a hard link) by a copy, so that it may change.

        The copy is on disk before it gets the file's name, so a power cut loses no record.
        """
        file = self.open()
        if not self.files.is_shared(file):
            return
        # If the process is killed before the rename, the loader removes files of this suffix.
        copy = self.path.with_name(self.path.name + names.DELETED)
        self.files.copy(self.path, copy)
        copied = self.files.open(copy)
        self.files.fsync(copied.fd)
        self.files.rename(copy, self.path)
        self.files.fsync_dir(self.dir)
        self.open_files.discard(self)
        self.file = None

    def become_inactive(self) -> list[OpenFile]:
        """Write the indexes and cut a preallocated file to its size: no appends follow.

        Returns the files that were written, for an fsync.
        """
        written = self.complete_indexes()
        if self.preallocated:
            self.cut(self.size_bytes)
            written.append(self.open())
        return written

    def index_paths(self) -> list[Path]:
        """The index files that exist."""
        paths = [self.offset_index.path, self.time_index.path]
        return [*paths, self.txn_index.path] if self.txn_index.exists else paths

    def paths(self) -> list[Path]:
        """All files, the .log file last: a segment exists as long as its .log file."""
        return [*self.index_paths(), self.path]

    # Timestamps

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of any record, -1 if there is none."""
        timestamp = self._max_timestamp
        if timestamp is None:
            timestamp, offset = self._time_entry(self.time_index.count - 1)
            self.set_max_timestamp(timestamp, offset)
        return timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has the largest timestamp."""
        self.max_timestamp  # noqa: B018 - reads the index if that has not happened yet
        return self._max_timestamp_offset

    def set_max_timestamp(self, timestamp: int, offset: int) -> None:
        self._max_timestamp = timestamp
        self._max_timestamp_offset = offset

    def largest_timestamp(self) -> int:
        """The time for `retention.ms`: the largest timestamp, or the file's modification time."""
        timestamp = self.max_timestamp
        if timestamp >= 0:
            return timestamp
        return self.path.stat().st_mtime_ns // 1_000_000

    def first_batch_timestamp(self) -> int:
        """Return the largest timestamp of the first batch, -1 if there is none; rolling depends on
        it.
        """
        timestamp = self.first_timestamp
        if timestamp is None and self.size_bytes:
            window = read_exactly(self.files, self.open(), 0, _HEADER_WINDOW)
            timestamp = self.first_timestamp = read_header(window).max_timestamp
        return NO_TIMESTAMP if timestamp is None else timestamp

    # Appending

    def write(self, position: int, data: bytearray | memoryview, size_bytes: int) -> None:
        """Write batches at `position`.  After an error the file is cut back to `position`.

        Raises OSError; raises NotTakenBack if the file could not be cut back.
        """
        try:
            file = self.file or self.open()
            written = self.files.pwrite(file.fd, data, position)
            if written != size_bytes:
                self.files.write_all(file, memoryview(data)[written:], position + written)
        except OSError as error:
            try:
                if self.file is not None:
                    self.files.ftruncate(self.file.fd, position)
            except OSError as cut_error:
                _logger.error("cannot cut %s back to %d: %s", self.path, position, cut_error)
                raise NotTakenBack(*error.args) from error
            raise

    def note_batch(
        self, position: int, size_bytes: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Update size, timestamps and indexes by a batch that was written at `position`.

        The rules are those of Kafka's LogSegment.append.
        """
        if position == 0:
            self.first_timestamp = max_timestamp
        largest = self._max_timestamp
        if max_timestamp > (self.max_timestamp if largest is None else largest):
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self._max_timestamp_offset)
            self.bytes_since_index = 0
            self.indexes_full = self._full()
        self.bytes_since_index += size_bytes
        self.size_bytes = position + size_bytes

    def has_index_room(self, batches: int) -> bool:
        """Whether the indexes have room for an entry for each of so many batches."""
        offsets, times = self.offset_index, self.time_index
        return (
            offsets.size_bytes + batches * offsets.entry.size <= self.index_bytes_max
            and times.size_bytes + (batches + 1) * times.entry.size <= self.index_bytes_max
        )

    def _full(self) -> bool:
        """Return whether an index has reached `segment.index.bytes`, so that the log has to roll.

        In the time index one entry stays free, for the one that is added when the segment is
        closed.
        """
        offsets, times = self.offset_index, self.time_index
        return (
            offsets.size_bytes + offsets.entry.size > self.index_bytes_max
            or times.size_bytes + 2 * times.entry.size > self.index_bytes_max
        )

    # Finding

    def headers(
        self, position: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Return position and header of each batch from `position` on, where a batch must start."""
        limit = self.size_bytes if end is None else end
        if position >= limit:
            return iter(())
        return scan.headers(self.files, self.open(), position, limit)

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch that ends at or after `offset`."""
        position = self.floor_position(offset)
        for at, header in self.headers(position):
            if header.base_offset + header.last_offset_delta >= offset:
                return at, header
        return None

    def floor_position(self, offset: int) -> int:
        """Return the position of a batch at or before the one that holds `offset`, by the offset
        index.

        An index that points to no batch is rebuilt.
        """
        entry_offset, position = self.offset_index.lookup(offset)
        if position and not self._starts_batch(position, entry_offset):
            self._rebuild("offset index")
            _, position = self.offset_index.lookup(offset)
        return position

    def _starts_batch(self, position: int, offset: int) -> bool:
        """Return whether a batch that starts in this segment at or before `offset` is at
        `position`.
        """
        if not 0 < position < self.size_bytes:
            return False
        window = read_exactly(self.files, self.open(), position, _HEADER_WINDOW)
        try:
            header = read_header(window)
        except CorruptBatch:
            return False
        return (
            self.base_offset <= header.base_offset <= offset
            and position + header.size_bytes <= self.size_bytes
        )

    def next_offset(self) -> int:
        """The offset after the last batch."""
        last = self.last_header()
        return self.base_offset if last is None else last.last_offset + 1

    def last_header(self) -> BatchHeader | None:
        """Of the last batch, None if there is none."""
        last = None
        last_indexed, _ = self.offset_index.last()
        for _, header in self.headers(self.floor_position(last_indexed)):
            last = header
        return last

    def time_floor_position(self, timestamp: int) -> int:
        """Where to start looking for the first record at or after `timestamp`.

        All batches before that place have smaller timestamps.
        """
        number = self.time_index.floor(timestamp)
        entry_timestamp, offset = self._time_entry(number)
        if entry_timestamp > timestamp:  # it was wrong, and there is a new index now
            entry_timestamp, offset = self.time_index.lookup(timestamp)
        return 0 if entry_timestamp < 0 else self.floor_position(offset)

    def _time_entry(self, number: int) -> tuple[int, int]:
        """Return an entry of the time index, or the last one of a rebuilt index if that entry is
        invalid.

        (-1, base offset) if there is no such entry.
        """
        if not self.size_bytes:
            return NO_TIMESTAMP, self.base_offset
        if number < 0 or time_check.holds(self, number):
            return self.time_index.at(number) if number >= 0 else (NO_TIMESTAMP, self.base_offset)
        self._rebuild("time index")
        return self.time_index.last()

    # Changing

    def _rebuild(self, index_name: str) -> None:
        _logger.warning("The %s of %s does not fit the log; rebuilding it", index_name, self.path)
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Rebuild the offset index and the time index from the batch headers."""
        self._reset_lookup_indexes()
        size_bytes = self.size_bytes
        for position, header in scan.headers(
            self.files, self.open(), 0, size_bytes, scan.WINDOW_BYTES_MAX
        ):
            self.note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)
        self.size_bytes = size_bytes
        self.time_index.append(self.max_timestamp, self._max_timestamp_offset)
        for file in self.save_indexes():  # no later flush has files below the recovery point
            self.files.fsync(file.fd)

    def _reset_lookup_indexes(self) -> None:
        """Empty the offset index and the time index, to rebuild them."""
        self.offset_index.reset()
        self.time_index.reset()
        self.set_max_timestamp(NO_TIMESTAMP, self.base_offset)
        self.bytes_since_index = 0
        self.indexes_full = False

    def reset_indexes(self) -> None:
        """Empty all three indexes: recovery rebuilds them batch by batch."""
        self._reset_lookup_indexes()
        self.txn_index.reset()

    def cut(self, size_bytes: int) -> None:
        """Cut the .log file to `size_bytes`."""
        self.own()
        self.files.ftruncate(self.open().fd, size_bytes)
        self.preallocated = False
        self.size_bytes = size_bytes
        if size_bytes == 0:
            self.first_timestamp = None

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove the batches that end at or after `offset`; the caller then saves the indexes."""
        self.own()
        first_removed = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if first_removed is not None:
            self.cut(first_removed[0])
        if self.size_bytes == 0:
            self.created_ms = now_ms
        self.bytes_since_index = 0
        self._find_max_timestamp()

    def _find_max_timestamp(self) -> None:
        """Find the largest timestamp after a cut, in the time index and the batches behind it."""
        timestamp, offset = self.time_index.last()
        for _, header in self.headers(self.floor_position(offset)):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self.set_max_timestamp(timestamp, offset)
