"""One fsync of a log, prepared by its owner and carried out in any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile


class Flush:
    """The files that hold a log's batches from its recovery point up to `end_offset`.

    `Durability` opens it.  `begin` is called when nothing more is to be appended to it, and then
    `run`, in a thread if one likes: only `error` changes from then on.
    The active segment's indexes are left out: whatever is not clean is recovered from the recovery
    point on, and that always begins with rebuilding the indexes of the segment it is in.
    """

    __slots__ = ("_files", "_open", "end_offset", "error", "generation", "snapshots")

    def __init__(self, files: Files, opened: list[OpenFile], snapshots: set[int]) -> None:
        self._files = files
        self._open = opened
        self.snapshots = snapshots
        self.end_offset = self.generation = -1
        self.error: OSError | None = None

    def begin(self, end_offset: int, generation: int) -> None:
        """What was appended since the files were opened is to be flushed with them."""
        self.end_offset = end_offset
        self.generation = generation

    def run(self) -> None:
        """Block until all of it is on disk; a failure is kept in `error`."""
        try:
            for file in self._open:
                self._files.fsync(file.fd)
        except OSError as error:
            self.error = error
        finally:
            self._open = []
