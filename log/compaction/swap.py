"""Replaces segments by their cleaned segment, in steps; a crash after any step is harmless.

    0  *.cleaned beside the log, on disk     a crash here: they are removed
    1  .cleaned -> .swap, log file first     in the middle: removed, the old segments are there
    2  the folder is fsynced                 from here on the new segment is the log
    3  old files -> .deleted, as for any removed segment    a crash here or later: `loader.tidy`
    4  .swap -> their names                                 removes the old ones and renames these
    5  the folder is fsynced

Steps 2 and 5 may block and are for a thread; the rest is a handful of renames on the loop.  Kafka
does the same without step 2, and trusts the file system to keep the order of renames.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log.directory import files as names
from kwire.log.segment import Segment

if TYPE_CHECKING:
    from kwire.log.compaction.task import GroupCleaned
    from kwire.log.log import Log


@dataclass(slots=True)
class Swap:
    """The replacement of `sources` by one cleaned segment.

    Between `begin` and `complete`, `log.cancel_swap` is its `cancel`.  Code that removes segments
    from the log in that time calls it first.
    """

    log: Log
    cleaned: GroupCleaned
    sources: list[Segment]
    cancelled: bool = False

    def begin(self) -> None:
        """Do step 1.  Raises OSError if a file cannot be renamed."""
        self.log.cancel_swap = self.cancel
        for name in self.cleaned.files:
            path = self.log.dir / name
            self.log.storage.files.rename(path, path.with_name(_base_name(name) + names.SWAP))

    def fsync(self) -> None:
        """Do step 2 or 5, in any thread."""
        self.log.storage.files.fsync_dir(self.log.dir)

    def complete(self, now_ms: int) -> Segment:
        """Do steps 3 and 4; returns the new segment of the log.

        After an OSError the log is between the two steps and has to be opened again.
        """
        log = self.log
        log.cancel_swap = None
        segment = self._segment(now_ms)
        for source in self.sources:
            paths = source.paths()
            if source.base_offset != segment.base_offset:
                snapshot = log.snapshots.drop(source.base_offset)
                if snapshot is not None:
                    paths.insert(0, snapshot)
                log.segments.remove(source)
            source.discard()
            log.storage.remove_later(paths, now_ms + log.config.file_delete_delay_ms)
        log.segments.add(segment)
        log.reader.forget()
        log.upkeep[log] = None
        for name in self.cleaned.files:
            path = log.dir / _base_name(name)
            log.storage.files.rename(path.with_name(path.name + names.SWAP), path)
        return segment

    def cancel(self) -> None:
        """Remove the new files, between `begin` and `complete`; the old segments stay."""
        self.cancelled = True
        self.log.cancel_swap = None
        try:
            for suffix in (names.SWAP, names.CLEANED):  # `begin` may have failed half-way
                remove_files(self.log, self.cleaned, suffix)
        except OSError as error:
            self.log.storage.failed(error)

    def _segment(self, now_ms: int) -> Segment:
        """Return the new segment, with its maximum timestamp known: nothing is read.

        It has the base offset of the first source. Its age for `segment.ms` begins at `now_ms`.
        """
        log, cleaned = self.log, self.cleaned
        segment = Segment(
            log.dir,
            cleaned.sources[0],
            log.storage.files,
            log.storage.open_files,
            config=log.config,
            created_ms=now_ms,
            size_bytes=cleaned.size_bytes,
            has_txn_index=any(names.TXN_INDEX in name for name in cleaned.files),
        )
        segment.set_max_timestamp(cleaned.max_timestamp, cleaned.max_timestamp_offset)
        return segment


def remove_files(log: Log, cleaned: GroupCleaned, suffix: str) -> None:
    """Remove the files of a cleaned segment, the .log file last: the others depend on it."""
    for name in reversed(cleaned.files):
        log.storage.files.remove(_path(log.dir, name, suffix))


def _path(directory: Path, cleaned_name: str, suffix: str) -> Path:
    return directory / (_base_name(cleaned_name) + suffix)


def _base_name(cleaned_name: str) -> str:
    return cleaned_name.removesuffix(names.CLEANED)
