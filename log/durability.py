"""What of a log is on disk for certain, and the flushes that make it so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kwire.log.directory import partition_metadata
from kwire.log.upkeep.flush import Flush

if TYPE_CHECKING:
    from kwire.log.directory.files import OpenFile
    from kwire.log.leader_epochs import LeaderEpochCache
    from kwire.log.producers.snapshots import Snapshots
    from kwire.log.producers.state import ProducerState
    from kwire.log.segments import Segments
    from kwire.log.storage import Storage


class Durability:
    """Below `recovery_point` everything is on disk.  `generation` is how often the log was cut.

    `open` a flush, `begin` it when nothing more is to be appended to it, run it in any thread, and
    say so to `flushed`.
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
        snapshots: Snapshots,
        *,
        recovery_point: int,
        now_ms: int,
        on_disk: bool,
    ) -> None:
        self._storage = storage
        self._segments = segments
        self._epochs = epochs
        self._snapshots = snapshots
        self._on_disk = on_disk  # False: new, its folder and what describes it need an fsync
        epochs.durable = on_disk
        self.generation = 0
        self.last_flush_ms = now_ms
        self.recovery_point = recovery_point

    def open(self, end_offset: int, at_close: Sequence[OpenFile] | None = None) -> Flush:
        """A flush of what there is, and of what is appended until it begins, its files open.

        `at_close` are others of the log's files, when it is closed.  LogError if one cannot be
        opened; nothing is changed then.
        """
        try:
            return self._open(end_offset, at_close)
        except OSError as error:
            raise self._storage.refused(error) from error

    def _open(self, end_offset: int, at_close: Sequence[OpenFile] | None) -> Flush:
        """Where many logs are closed, who closes them sees to the folder that theirs are in."""
        files, directory, segments = self._storage.files, self._storage.dir, self._segments
        opened = list(at_close or ())
        # A segment that was flushed up to its end and rolled then: its indexes were written late.
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
            if at_close is None:
                directories.append(directory.parent)
        for path in small:
            with suppress(FileNotFoundError):
                opened.append(files.open_existing(path))
        opened += [files.open_folder(path) for path in directories]  # last: the names of these
        return Flush(files, opened, snapshots)

    def begin(self, flush: Flush, end_offset: int) -> None:
        """All that it is to hold, up to `end_offset`, has been written; `Flush.run` is next."""
        flush.begin(end_offset, self.generation)
        self._epochs.durable = True  # what is written from now on is in no flush under way

    def flush(self, flush: Flush, end_offset: int) -> None:
        """Carry out, here and now, a flush that was opened before."""
        self.begin(flush, end_offset)
        flush.run()
        self.flushed(flush)

    def flushed(self, flush: Flush) -> None:
        """`flush` has run: recovery may begin where it ended.  LogError if the disk refused."""
        if flush.error is not None:
            raise self._storage.failed(flush.error)
        # Not before: another flush may begin and end while this one waits for its thread.
        self._on_disk = True
        if flush.generation == self.generation:
            self._snapshots.synced(flush.snapshots)
            self.recovery_point = max(self.recovery_point, flush.end_offset)

    def prepare_close(self, producers: ProducerState, end_offset: int) -> Flush | None:
        """Write what is only in memory; gives what makes it durable, None if all is.

        With what the next start trusts after a clean stop and no flush has: recovery makes it.
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
        """The log ends at `end_offset` now: a flush under way says nothing of what follows."""
        self.recovery_point = min(self.recovery_point, end_offset)
        self.generation += 1
