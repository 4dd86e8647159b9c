"""The producer snapshots in a partition's folder."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log.directory import files as names
from kwire.log.error import CorruptFile
from kwire.log.producers import snapshot as producer_snapshot

if TYPE_CHECKING:
    from kwire.log.directory.files import Files
    from kwire.log.producers.entry import ProducerEntry
    from kwire.log.producers.state import ProducerState

_logger = logging.getLogger(__name__)


class ProducerSnapshots:
    """The offsets with a snapshot; one is taken at the base offset of each new segment."""

    __slots__ = ("_directory", "_files", "_last_taken", "_unsynced", "offsets")

    def __init__(self, directory: Path, files: Files, offsets: Iterable[int] = ()) -> None:
        self._directory = directory
        self._files = files
        self.offsets = set(offsets)
        self._unsynced: set[int] = set()
        self._last_taken = -1

    def path(self, offset: int) -> Path:
        return self._directory / names.segment_file_name(offset, names.PRODUCER_SNAPSHOT)

    def move(self, directory: Path) -> None:
        """Use the new path of a renamed folder."""
        self._directory = directory

    def latest(self) -> int | None:
        return max(self.offsets, default=None)

    def take(self, producers: ProducerState) -> None:
        """Write the state at its end offset, unless that offset has a snapshot.

        Not fsynced: the flush that moves the recovery point past it does that.
        """
        offset = producers.end_offset
        if offset > self._last_taken:
            data = producer_snapshot.encode(producers.entries.values())
            try:
                self._files.write(self.path(offset), data)
            except OSError:
                self._files.remove(self.path(offset))  # a part of it would be found later
                raise
            self.offsets.add(offset)
            self._unsynced.add(offset)
            self._last_taken = offset

    @property
    def unsynced(self) -> set[int]:
        """The offsets of snapshots whose files the next flush has to include."""
        return self._unsynced & self.offsets

    def synced(self, offsets: set[int]) -> None:
        """Note that a flush has written these snapshots to disk."""
        self._unsynced -= offsets

    def read(self, offset: int) -> list[ProducerEntry]:
        """The producers at `offset`.  CorruptFile, FileNotFoundError."""
        return producer_snapshot.decode(self._files.read(self.path(offset)))

    def load_latest(self, producers: ProducerState, log_start_offset: int, now_ms: int) -> None:
        """Restore the newest readable snapshot, and remove the unreadable ones before it."""
        while (offset := self.latest()) is not None:
            try:
                entries = self.read(offset)
            except (CorruptFile, FileNotFoundError) as error:
                _logger.warning("%s cannot be used: %s", self.path(offset), error)
                self.remove(offset)
                continue
            producers.restore(entries, offset, now_ms)
            self._last_taken = offset
            return
        producers.clear(log_start_offset)
        self._last_taken = log_start_offset

    def remove(self, offset: int) -> None:
        self._files.remove(self.path(offset))
        self.offsets.discard(offset)

    def remove_outside(self, first: int, last: int) -> None:
        """Remove the snapshots at or before `first` and behind `last`: outside of the log."""
        for offset in sorted(self.offsets):
            if not first < offset <= last:
                self.remove(offset)
        self._last_taken = min(self._last_taken, last)

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Remove snapshots that are neither at a segment's base offset nor the newest one."""
        bases = set(base_offsets)
        newest = self.latest()
        for offset in sorted(self.offsets - bases):
            if offset != newest or offset < max(bases, default=0):
                self.remove(offset)

    def drop(self, offset: int) -> Path | None:
        """Drop the snapshot at a removed segment's base offset; returns the file to remove."""
        if offset not in self.offsets:
            return None
        self.offsets.discard(offset)
        return self.path(offset)
