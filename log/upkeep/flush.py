"""One flush (fsync) of a log, which the loop prepares and any thread runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile


class Flush:
    """The open files with a log's batches from its recovery point up to `end_offset`.

    `Durability` opens it.  The owner calls `begin` when no later append belongs to it, and then
    `run` in any thread, which changes nothing but `error`.  The active segment's indexes are left
    out: whatever is not clean is recovered from the recovery point on, and that always begins with
    rebuilding the indexes of the segment it is in.
    """

    __slots__ = ("_files", "_open", "end_offset", "error", "generation", "snapshots")

    def __init__(self, files: Files, opened: list[OpenFile], snapshots: set[int]) -> None:
        self._files = files
        self._open = opened
        self.snapshots = snapshots
        self.end_offset = self.generation = -1
        self.error: OSError | None = None

    def begin(self, end_offset: int, generation: int) -> None:
        """Fix the end offset: appends since the files were opened belong to this flush."""
        self.end_offset = end_offset
        self.generation = generation

    def run(self) -> None:
        """Block until all files are on disk; keeps an OSError in `error`."""
        try:
            for file in self._open:
                self._files.fsync(file.fd)
        except OSError as error:
            self.error = error
        finally:
            self._open = []
