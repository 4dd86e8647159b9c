"""One fsync of a log, prepared by its owner and carried out in any thread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log import partition_metadata

if TYPE_CHECKING:
    from kwire.log.files import Files, OpenFile
    from kwire.log.segmented_log import SegmentedLog


class Flush:
    """The files that hold a log's batches from its recovery point up to `end_offset`.

    Immutable but for `error`, so `run` may be called in a thread: it holds the files open itself.
    The active segment's indexes are left out: whatever is not clean is recovered from the recovery
    point on, and that always begins with rebuilding the indexes of the segment it is in.
    """

    __slots__ = ("_directories", "_files", "_open", "end_offset", "error", "generation")

    def __init__(
        self,
        files: Files,
        directories: list[Path],
        opened: list[OpenFile],
        end_offset: int,
        generation: int,
    ) -> None:
        self._files = files
        self._directories = directories
        self._open = opened
        self.end_offset = end_offset
        self.generation = generation
        self.error: OSError | None = None

    @classmethod
    def of(cls, log: SegmentedLog, generation: int, *, new: bool) -> Flush:
        """Everything that `log` holds now; `new` if no flush was before.

        OSError if a file cannot be opened.
        """
        opened: list[OpenFile] = []
        unflushed = log.segments.from_floor(log.recovery_point)
        for segment in unflushed:
            opened.append(segment.open())
            if segment is not log.segments.active:
                opened += [log.files.open(path) for path in segment.index_paths()]
        small = log.snapshots.take_unsynced()
        directories = []
        if any(segment.base_offset >= log.recovery_point for segment in unflushed):
            directories.append(log.dir)
        if new:
            small += [log.epochs.path, log.dir / partition_metadata.FILE_NAME]
            directories.append(log.dir.parent)
        opened += [log.files.open_existing(path) for path in small if path.exists()]
        return cls(log.files, directories, opened, log.log_end_offset, generation)

    def run(self) -> None:
        """Block until all of it is on disk; a failure is kept in `error`."""
        try:
            for file in self._open:
                self._files.fsync(file.fd)
            for directory in self._directories:
                self._files.fsync_dir(directory)
        except OSError as error:
            self.error = error
        finally:
            self._open = []
