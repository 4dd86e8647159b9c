"""One fsync of a log, prepared by its owner and carried out in any thread."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kwire.log.directory import partition_metadata

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile
    from kwire.log.segmented_log import SegmentedLog


class Flush:
    """The files that hold a log's batches from its recovery point up to `end_offset`.

    `of` opens what is needed, `begin` is called when nothing more is to be appended to it, and then
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

    @classmethod
    def of(
        cls, log: SegmentedLog, *, new: bool, at_close: Sequence[OpenFile] | None = None
    ) -> Flush:
        """Everything that `log` holds now; `new` if no flush was before.

        `at_close` are others of its files, when it is closed; the folder that its own is in is
        left to who closes many then.  OSError if a file cannot be opened; nothing is changed then.
        """
        opened = list(at_close or ())
        # A segment that was flushed up to its end and rolled then: its indexes were written late.
        unflushed = log.segments.from_floor(max(log.recovery_point - 1, 0))
        if at_close is not None and log.log_end_offset <= log.recovery_point:
            unflushed = []
        for segment in unflushed:
            opened.append(segment.open())
            if segment is not log.segments.active:
                opened += [log.files.open(path) for path in segment.index_paths()]
        snapshots = log.snapshots.unsynced
        small = [log.snapshots.path(offset) for offset in snapshots]
        directories = []
        if (
            at_close
            or snapshots
            or any(segment.base_offset >= log.recovery_point for segment in unflushed)
        ):
            directories.append(log.dir)
        if new:
            small += [log.epochs.path, log.dir / partition_metadata.FILE_NAME]
            if at_close is None:
                directories.append(log.dir.parent)
        for path in small:
            with suppress(FileNotFoundError):
                opened.append(log.files.open_existing(path))
        opened += [log.files.open_folder(path) for path in directories]  # last: the names of these
        return cls(log.files, opened, snapshots)

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
