"""The recovery point of a log, and the flushes (fsync) that advance it.

A flush has four steps: `open` opens the files, `begin` fixes the end offset, `Flush.run` calls
fsync in any thread, and `flushed` advances the recovery point.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kwire.log.directory import partition_metadata
from kwire.log.upkeep.flush import Flush

if TYPE_CHECKING:
    from kwire.log.directory.files import OpenFile
    from kwire.log.leader_epochs import LeaderEpochCache
    from kwire.log.producers.snapshots import ProducerSnapshots
    from kwire.log.producers.state import ProducerState
    from kwire.log.segments import Segments
    from kwire.log.storage import Storage


class Durability:
    """Knows which part of a log is on disk, and makes flushes of the rest.

    recovery_point   all records before this offset are on disk
    generation       the number of truncations; a flush from before one says nothing of later bytes
    last_flush_ms    when the last flush began, for `flush.ms`
    """

    __slots__ = (
        "_epochs",
        "_on_disk",
        "_segments",
        "_snapshots",
        "_storage",
        "generation",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(
        self,
        storage: Storage,
        segments: Segments,
        epochs: LeaderEpochCache,
        snapshots: ProducerSnapshots,
        *,
        recovery_point: int,
        now_ms: int,
        on_disk: bool,
    ) -> None:
        """Describe a log whose records before `recovery_point` are on disk.

        `on_disk` is False for a new log: its folder and small files need an fsync, too.
        """
        self._storage = storage
        self._segments = segments
        self._epochs = epochs
        self._snapshots = snapshots
        # False for a new log, whose folder and small files need an fsync too.
        self._on_disk = on_disk
        epochs.durable = on_disk
        self.generation = 0
        self.last_flush_ms = now_ms
        self.recovery_point = recovery_point

    def open(self, end_offset: int, at_close: Sequence[OpenFile] | None = None) -> Flush:
        """Return a flush, with its files open, of everything that is written before the flush
        begins.

        `at_close` has further files of a log that is being closed.  Raises LogError if a file
        cannot be opened; nothing has changed then.
        """
        try:
            return self._open(end_offset, at_close)
        except OSError as error:
            raise self._storage.refused(error) from error

    def _open(self, end_offset: int, at_close: Sequence[OpenFile] | None) -> Flush:
        """Return a flush of everything before `end_offset` that is not on disk, its files opened.

        The files are opened on the loop, so a thread can flush them while the log goes on.
        `at_close` has further files when the log is closed, else it is None. Raises OSError.
        """
        files, directory, segments = self._storage.files, self._storage.dir, self._segments
        opened = list(at_close or ())
        # From the segment before the recovery point on: a segment that was flushed up to its end
        # and then rolled has written its indexes after that flush.
        unflushed = segments.from_floor(max(self.recovery_point - 1, 0))
        if at_close is not None and end_offset <= self.recovery_point:
            unflushed = []
        for segment in unflushed:
            opened.append(segment.open())
            if segment is not segments.active:
                opened += [files.open(path) for path in segment.index_paths()]
        snapshots = self._snapshots.unsynced
        small = [self._snapshots.path(offset) for offset in snapshots]
        directories = []
        if (
            at_close
            or snapshots
            or any(segment.base_offset >= self.recovery_point for segment in unflushed)
        ):
            directories.append(directory)
        if not self._on_disk:
            small += [self._epochs.path, directory / partition_metadata.FILE_NAME]
            if at_close is None:  # at close the log manager flushes the log directory once for all
                directories.append(directory.parent)
        for path in small:
            with suppress(FileNotFoundError):
                opened.append(files.open_existing(path))
        # Folders come last: they hold the names of the files before them.
        opened += [files.open_folder(path) for path in directories]
        return Flush(files, opened, snapshots)

    def begin(self, flush: Flush, end_offset: int) -> None:
        """Fix what `flush` covers: everything before `end_offset`.  `Flush.run` comes next."""
        flush.begin(end_offset, self.generation)
        self._epochs.durable = True  # later changes of the epoch file are in no flush under way

    def flush(self, flush: Flush, end_offset: int) -> None:
        """Run a flush that was opened before, and wait for the disk.  Raises LogError."""
        self.begin(flush, end_offset)
        flush.run()
        self.flushed(flush)

    def flushed(self, flush: Flush) -> None:
        """Advance the recovery point after `flush` has run.  Raises LogError if fsync failed."""
        if flush.error is not None:
            raise self._storage.failed(flush.error)
        # Not set in `begin`: another flush may begin and end while this one waits for a thread.
        self._on_disk = True
        if flush.generation == self.generation:
            self._snapshots.synced(flush.snapshots)
            self.recovery_point = max(self.recovery_point, flush.end_offset)

    def prepare_close(self, producers: ProducerState, end_offset: int) -> Flush | None:
        """Write what is only in memory.  Returns the flush of it, or None if all is on disk.

        The flush also has the files that no other flush has, as recovery can rebuild them: indexes
        and the transaction index.  After a clean stop the next start trusts them.
        """
        segment, epochs = self._segments.active, self._epochs
        try:
            written = segment.become_inactive()
            self._snapshots.take(producers)
            epochs.flush()
            if segment.txn_index.exists:
                written.append(self._storage.files.open(segment.txn_index.path))
        except OSError as error:
            raise self._storage.failed(error) from error
        if not written and not self._snapshots.unsynced and end_offset <= self.recovery_point:
            return None
        flush = self.open(end_offset, at_close=written)
        self.begin(flush, end_offset)
        return flush

    def cut(self, end_offset: int) -> None:
        """Note that the log was truncated to `end_offset`.

        A flush under way no longer counts: bytes that are appended later are not in it.
        """
        self.recovery_point = min(self.recovery_point, end_offset)
        self.generation += 1
