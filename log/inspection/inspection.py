"""Checks files on disk: a segment with its indexes, a partition's folder, a log directory.

The checks change nothing, and the broker may be running or not.  Each problem has the file, the
place and the broken rule.  Problems that a starting broker repairs (the tail of a segment after a
kill, a missing index) are reported as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kwire.codecs.batches import BatchHeader, CorruptBatch, records
from kwire.log.directory import checkpoints, meta_properties, partition_metadata
from kwire.log.directory import files as names
from kwire.log.directory.files import Files, OpenFile
from kwire.log.directory.log_dir import parse_partition_folder
from kwire.log.error import CorruptFile, LogDirError
from kwire.log.index.offset_index import OffsetIndex
from kwire.log.index.time_index import TimeIndex
from kwire.log.index.txn_index import AbortedTxn, TxnIndex
from kwire.log.producers import snapshot as producer_snapshot
from kwire.log.producers.replay import marker_of
from kwire.log.producers.state import ProducerState
from kwire.log.recovery import scan

_FILES = Files()
_OFFSET_CHECKPOINTS = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.CLEANER_OFFSETS,
)


class LogProblem(NamedTuple):
    """A problem in a file; `place` is its position (`position 4096`, `entry 3`, …)."""

    path: Path
    place: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.path), self.place, self.what) if part)


class Inspector:
    """Checks the segments of partitions; collects `problems` and counts what it has checked."""

    def __init__(self, *, deep: bool = True) -> None:
        """With `deep`, every record is decoded; otherwise batches with a valid CRC are trusted."""
        self.problems: list[LogProblem] = []
        self.segments = self.batches = self.records = self.size_bytes = 0
        self._deep = deep
        self._next_offset = -1
        self._epoch = -1
        self._producers = ProducerState()
        self._epochs: list[tuple[int, int]] | None = None

    def note(self, path: Path, place: str, what: str) -> None:
        self.problems.append(LogProblem(path, place, what))

    # -- a partition's folder

    def folder(self, directory: Path) -> None:
        """Check a partition: its segments, their indexes, snapshots and metadata files."""
        self._next_offset, self._epoch, self._producers = -1, -1, ProducerState()
        self._epochs = self._read_epochs(directory / checkpoints.LEADER_EPOCHS)
        self._read_topic_id(directory)
        segments = sorted(directory.glob(f"*{names.LOG}"))
        for path in segments:
            if names.offset_of_file_name(path.name) is None:
                self.note(path, "", "the name of a segment is its base offset in 20 digits")
            else:
                self.segment(path)
        for path in sorted(directory.glob(f"*{names.PRODUCER_SNAPSHOT}")):
            self.snapshot(path)
        if self._epochs and self._next_offset >= 0 and self._epochs[-1][1] > self._next_offset:
            epoch, offset = self._epochs[-1]
            where = directory / checkpoints.LEADER_EPOCHS
            self.note(where, f"epoch {epoch}", f"begins at {offset}, above the log end offset")

    @property
    def end_offset(self) -> int:
        """The log end offset of the last checked folder, or -1 if it has no batches."""
        return self._next_offset

    def _read_epochs(self, path: Path) -> list[tuple[int, int]] | None:
        """Return (epoch, start offset) of each line, None if there is no readable file.

        Notes lines out of order.
        """
        try:
            epochs = checkpoints.decode_epochs(path.read_bytes())
        except FileNotFoundError:
            return None
        except CorruptFile as error:
            self.note(path, "", str(error))
            return None
        for before, after in pairwise(epochs):
            if after[0] <= before[0] or after[1] < before[1]:
                self.note(path, f"epoch {after[0]}", f"comes after epoch {before[0]}, {before[1]}")
        return epochs

    def _read_topic_id(self, directory: Path) -> None:
        try:
            partition_metadata.read(_FILES, directory)
        except CorruptFile as error:
            self.note(directory / partition_metadata.FILE_NAME, "", str(error))

    def snapshot(self, path: Path) -> None:
        """A producer snapshot."""
        try:
            producer_snapshot.decode(path.read_bytes())
        except CorruptFile as error:
            self.note(path, "", str(error))

    # -- a segment

    def segment(self, path: Path) -> None:
        """A .log file and the indexes beside it."""
        base_offset = names.offset_of_file_name(path.name)
        assert base_offset is not None, path
        offsets = _OffsetEntries(self, path.with_suffix(names.OFFSET_INDEX), base_offset)
        times = _TimeEntries(self, path.with_suffix(names.TIME_INDEX), base_offset)
        aborted: list[AbortedTxn] = []
        knows_start = base_offset == 0 or self._next_offset >= 0
        last_offset = base_offset - 1
        for position, header, batch in self._batches(path):
            if header.base_offset < max(base_offset, self._next_offset):
                what = f"offset {header.base_offset} comes after {self._next_offset - 1}"
                self.note(path, f"position {position}", what)
            self._check_epoch(path, position, header)
            offsets.batch(position, header)
            times.batch(header)
            if self._deep:
                self._check_records(path, position, header, batch)
            if (ended := self._note_producer(header, batch)) is not None:
                aborted.append(ended)
            last_offset = max(last_offset, header.last_offset)
            self._next_offset = last_offset + 1
        offsets.end()
        times.end()
        self._check_aborted(path.with_suffix(names.TXN_INDEX), base_offset, aborted, knows_start)
        self.segments += 1

    def _batches(self, path: Path) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Check every batch, up to the first that is incomplete or has a wrong CRC."""
        file = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        size_bytes = _FILES.size(file)
        self.size_bytes += size_bytes
        position = 0
        try:
            for at, header, batch in scan.batches(_FILES, file, 0, size_bytes):
                yield at, header, batch
                self.batches += 1
                position = at + header.size_bytes
        except CorruptBatch as error:
            left = size_bytes - position
            self.note(path, f"position {position}", f"{error} ({left} bytes cannot be read)")

    def _check_epoch(self, path: Path, position: int, header: BatchHeader) -> None:
        """Note a batch with an older leader epoch than before, or another than the checkpoint's.

        Magic 0 and 1 have no epochs.
        """
        epoch = header.partition_leader_epoch
        if header.magic < 2 or epoch < 0:
            return
        if epoch < self._epoch:
            self.note(path, f"position {position}", f"epoch {epoch} comes after {self._epoch}")
        self._epoch = max(epoch, self._epoch)
        for known, start in reversed(self._epochs or ()):
            if start <= header.base_offset:
                if known != epoch:
                    what = f"epoch {epoch}, where leader-epoch-checkpoint has {known}"
                    self.note(path, f"position {position}", what)
                return

    def _check_records(
        self, path: Path, position: int, header: BatchHeader, batch: memoryview
    ) -> None:
        """Count the records of a batch; note unreadable records and wrong offsets.

        For magic 0 and 1 any offset up to the batch's last one is right: the header has no first
        offset.
        """
        expected = header.base_offset if header.magic >= 2 else -1
        count = 0
        try:
            for record in records(batch):
                if not expected <= record.offset <= header.last_offset:
                    what = f"a record at offset {record.offset}, outside of its batch or order"
                    self.note(path, f"position {position}", what)
                expected = record.offset + 1
                count += 1
        except CorruptBatch as error:
            self.note(path, f"position {position}", f"record {count}: {error}")
        self.records += count

    def _note_producer(self, header: BatchHeader, batch: memoryview) -> AbortedTxn | None:
        """Return the transaction that the batch aborted, or None."""
        if header.producer_id < 0:
            return None
        try:
            marker = marker_of(batch, header)
        except CorruptBatch:
            return None  # `_check_records` reports it
        completed = self._producers.note(header, header.base_offset, marker)
        return None if completed is None else self._producers.complete(completed)

    def _check_aborted(
        self, path: Path, base_offset: int, aborted: list[AbortedTxn], knows_start: bool
    ) -> None:
        """Compare the transaction index with the markers.

        Entries of transactions that began before the first checked segment are trusted.
        """
        exists = path.exists()
        index = TxnIndex(path, base_offset, _FILES, exists=exists)
        if not index.valid():
            self.note(path, "", "an entry is cut short, of an unknown version, or out of order")
            return
        found = {entry.last_offset: entry for entry in (index.entries if exists else ())}
        for entry in aborted:
            known = found.pop(entry.last_offset, None)
            # The fourth field, the last stable offset, may differ.
            if known is None or known[:3] != entry[:3]:
                what = f"producer {entry.producer_id}'s aborted transaction is missing or differs"
                self.note(path, f"marker at {entry.last_offset}", what)
        if found and knows_start and not any(e.first_offset < base_offset for e in found.values()):
            last = min(found)
            self.note(path, f"marker at {last}", "there is no such marker in the segment")

    # -- a log directory

    def log_dir(self, directory: Path) -> None:
        """Check every partition in a log directory, and the files beside them."""
        try:
            meta_properties.read(_FILES, directory)
        except LogDirError as error:
            self.note(directory / meta_properties.FILE_NAME, "", str(error))
        ends: dict[tuple[str, int], int] = {}
        for folder in partition_folders(directory):
            self.folder(folder)
            topic, _, index = folder.name.rpartition("-")
            if self.end_offset >= 0:
                ends[topic, int(index)] = self.end_offset
        for name in _OFFSET_CHECKPOINTS:
            self._check_checkpoint(directory / name, ends)

    def _check_checkpoint(self, path: Path, ends: dict[tuple[str, int], int]) -> None:
        """Note each offset of a checkpoint above the log end offset of its partition.

        `ends` has the log end offsets; partitions that it lacks are not checked.
        """
        try:
            offsets = checkpoints.read_offsets(_FILES, path)
        except CorruptFile as error:
            self.note(path, "", str(error))
            return
        for (topic, partition), offset in offsets.items():
            end = ends.get((topic, partition))
            if end is not None and offset > end:
                what = f"{offset} is above the log end offset, {end}"
                self.note(path, f"{topic}-{partition}", what)


def partition_folders(directory: Path) -> list[Path]:
    """Return the folders of partitions in a log directory, without deleted ones.

    A folder with a meta.properties is another log directory (`broker-N`) and not a partition's.
    """
    return [
        path
        for path in sorted(directory.iterdir())
        if parse_partition_folder(path.name) is not None
        and path.is_dir()
        and not (path / meta_properties.FILE_NAME).exists()
    ]


class _OffsetEntries:
    """Walks the offset index along with the batches."""

    def __init__(self, inspector: Inspector, path: Path, base_offset: int) -> None:
        """Open the offset index at `path`; note it if it is missing or not in order."""
        self._inspector = inspector
        self._path = path
        self._index = OffsetIndex(path, base_offset, _FILES)
        self._number = 0
        if not path.exists():
            inspector.note(path, "", "the index is missing")
        for number in range(1, self._index.count):
            before, after = self._index.at(number - 1), self._index.at(number)
            if not (before[0] < after[0] and before[1] < after[1]):
                inspector.note(path, f"entry {number}", f"{after} comes after {before}")

    def batch(self, position: int, header: BatchHeader) -> None:
        """Check the entries that point to this batch; batches come in the order of the log.

        Notes entries that point into the middle of a batch or have an offset before its first.
        """
        while self._number < self._index.count:
            offset, points_to = self._index.at(self._number)
            if points_to > position:
                return
            if points_to < position:
                self._report(f"points to position {points_to}, where no batch starts")
            elif offset < header.base_offset:
                self._report(f"offset {offset} is before that of its batch, {header.base_offset}")
            self._number += 1

    def end(self) -> None:
        """Report entries that point after the last batch."""
        if self._number < self._index.count:
            _, points_to = self._index.at(self._number)
            self._report(f"points to position {points_to}, after the last batch")

    def _report(self, what: str) -> None:
        self._inspector.note(self._path, f"entry {self._number}", what)


class _TimeEntries:
    """Walks the time index along with the batches."""

    def __init__(self, inspector: Inspector, path: Path, base_offset: int) -> None:
        """Open the time index at `path`; note it if it is missing or not in order."""
        self._inspector = inspector
        self._path = path
        self._index = TimeIndex(path, base_offset, _FILES)
        self._number = 0
        self._largest = -1
        if not path.exists():
            inspector.note(path, "", "the index is missing")
        for number in range(1, self._index.count):
            before, after = self._index.at(number - 1), self._index.at(number)
            if not (before[0] < after[0] and before[1] < after[1]):
                inspector.note(path, f"entry {number}", f"{after} comes after {before}")

    def batch(self, header: BatchHeader) -> None:
        """Check the entries up to this batch; batches come in the order of the log.

        Each entry must have the largest timestamp of all records up to its offset.
        """
        self._largest = max(self._largest, header.max_timestamp)
        while self._number < self._index.count:
            timestamp, offset = self._index.at(self._number)
            if offset > header.last_offset:
                return
            if timestamp != self._largest:
                self._report(f"{timestamp}, but the largest up to {offset} is {self._largest}")
            self._number += 1

    def end(self) -> None:
        """Report entries with offsets after the last batch."""
        if self._number < self._index.count:
            _, offset = self._index.at(self._number)
            self._report(f"offset {offset} is after the last batch")

    def _report(self, what: str) -> None:
        self._inspector.note(self._path, f"entry {self._number}", what)
