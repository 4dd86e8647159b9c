"""Reads the segments for a cleaning, within the I/O limit of the cleaner."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

from kwire.codecs.batches import BatchHeader, CorruptBatch, iter_batches, read_header
from kwire.log.compaction.task import CleaningTask
from kwire.log.directory import files as names
from kwire.log.directory.files import Files, OpenFile
from kwire.log.index.txn_index import AbortedTxn, TxnIndex
from kwire.log.reading.region import read_exactly
from kwire.log.recovery import scan

_HEADER_BYTES = 61
_PAUSE_S_MIN = 0.01  # sleeping for less is mostly overhead


class Throttle:
    """Keeps the bytes read and written within `log.cleaner.io.max.bytes.per.second`."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Allow `bytes_per_second`, which may be 0 or infinite; tests pass clock and sleep.

        The lower bound only avoids a division by zero.
        """
        self._seconds_per_byte = 1 / max(bytes_per_second, 1e-300)
        self._clock = clock
        self._sleep = sleep
        self._ahead_until = clock()

    def spend(self, size_bytes: int) -> None:
        """Count bytes, and sleep until the limit allows them."""
        now = self._clock()
        self._ahead_until = max(self._ahead_until, now) + size_bytes * self._seconds_per_byte
        if self._ahead_until - now > _PAUSE_S_MIN:
            self._sleep(self._ahead_until - now)


class CleaningSource:
    """The segments of one log, as they were when the round began."""

    def __init__(self, task: CleaningTask, files: Files, throttle: Throttle) -> None:
        """Read the segments of `task`; every read is counted in `throttle` and `bytes_read`."""
        self._directory = Path(task.directory)
        self._files = files
        self._throttle = throttle
        self._window_bytes = task.read_bytes
        self._sizes = dict(task.segments)
        self._bases = [*self._sizes, *task.later_segments]
        self._indexes: dict[int, TxnIndex] = {}
        self.bytes_read = 0

    def path(self, base_offset: int, suffix: str = names.LOG) -> Path:
        return self._directory / names.segment_file_name(base_offset, suffix)

    def size_bytes(self, base_offset: int) -> int:
        return self._sizes[base_offset]

    def end_offset(self, base_offset: int) -> int:
        """The base offset of the next segment, which always exists: the active one."""
        return self._bases[self._bases.index(base_offset) + 1]

    def modified_ns(self, base_offset: int) -> int:
        """The modification time of the .log file, in ns."""
        return self.path(base_offset).stat().st_mtime_ns

    def batches(self, base_offset: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """Yield each batch of a segment: bytes with the whole batch, its position in them, its
        header.

        Raises FileNotFoundError if the segment was removed, CorruptBatch for other content.
        """
        file = self._files.open_existing(self.path(base_offset))
        size_bytes = self._sizes[base_offset]
        position = 0
        wanted = self._window_bytes
        while position < size_bytes:
            window = self._read(file, position, min(wanted, size_bytes - position))
            at = 0
            needed = _HEADER_BYTES
            while len(window) - at >= needed or (at < len(window) == size_bytes - position):
                header = read_header(window, at)
                if at + header.size_bytes > len(window):
                    needed = header.size_bytes
                    break
                yield window, at, header
                at += header.size_bytes
                needed = _HEADER_BYTES
            if not at and len(window) < wanted:
                raise CorruptBatch(f"a batch at {position} of {base_offset} is cut short")
            position += at
            wanted = max(self._window_bytes, needed)

    def batches_backwards(self, base_offset: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """Like `batches`, from the last batch to the first."""
        file = self._files.open_existing(self.path(base_offset))
        starts = self._window_starts(file, self._sizes[base_offset])
        end = self._sizes[base_offset]
        for start in reversed(starts):
            window = self._read(file, start, end - start)
            end = start
            found = list(iter_batches(window))
            if not found or found[-1][0] + found[-1][1].size_bytes != len(window):
                raise CorruptBatch(f"batches at {start} of {base_offset} are cut short")
            for at, header in reversed(found):
                yield window, at, header

    def _window_starts(self, file: OpenFile, size_bytes: int) -> array[int]:
        """Return the positions of batches about one window apart, with the first batch."""
        starts = array("q")
        due = 0
        for position, _ in scan.headers(self._files, file, 0, size_bytes, scan.WINDOW_BYTES_MAX):
            if position >= due:
                starts.append(position)
                due = position + self._window_bytes
        return starts

    def _read(self, file: OpenFile, position: int, size_bytes: int) -> bytes:
        """Read bytes of a segment, within the I/O limit of the cleaner."""
        window = read_exactly(self._files, file, position, size_bytes)
        self._throttle.spend(len(window))
        self.bytes_read += len(window)
        return window

    def aborted(self, base_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap these offsets, from all indexes.

        `base_offset` may lie within a segment: the cleaner may have stopped there the last time.
        """
        found: list[AbortedTxn] = []
        first = bisect_right(self._bases, base_offset) - 1
        for base in self._bases[first:]:
            entries, complete = self._index(base).collect(base_offset, end_offset)
            found += entries
            if complete:
                break
        return found

    def _index(self, base_offset: int) -> TxnIndex:
        """Return the transaction index of a segment, which is read once; empty if it has no
        file."""
        index = self._indexes.get(base_offset)
        if index is None:
            path = self.path(base_offset, names.TXN_INDEX)
            index = TxnIndex(path, base_offset, self._files, exists=path.exists())
            self._indexes[base_offset] = index
        return index
