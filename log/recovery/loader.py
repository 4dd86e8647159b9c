"""Loads the log of one partition from its folder, with a recovery after an unclean stop.

After a clean stop no batch is read.  Otherwise each segment is read from the one with the recovery
point on: its batches are checked and its indexes rebuilt.  The log is cut at the first invalid
batch, and segments behind the cut are removed.  (Kafka's LogLoader.)

    suffix     left over from               action
    .deleted   an unfinished removal        the file is removed
    .cleaned   an unfinished compaction     the file is removed
    .swap      a finished compaction        the segments that it replaces are removed, and the file
                                            gets its final name
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.codecs.batches import BatchHeader, CorruptBatch
from kwire.codecs.uuids import uuid_text
from kwire.log.directory import files as names
from kwire.log.directory import partition_metadata
from kwire.log.durability import Durability
from kwire.log.error import CorruptFile, LogDirError, OtherTopic
from kwire.log.leader_epochs import LeaderEpochCache
from kwire.log.log import Log
from kwire.log.producers import replay
from kwire.log.producers.snapshots import ProducerSnapshots
from kwire.log.producers.state import PRODUCER_ID_EXPIRATION_MS, ProducerState
from kwire.log.recovery import epoch_check, scan
from kwire.log.segment import RELATIVE_OFFSET_MAX, Segment
from kwire.log.segments import Segments
from kwire.log.storage import Storage

if TYPE_CHECKING:
    from kwire.log.config import LogConfig
    from kwire.log.directory.files import Files
    from kwire.log.reading.region import OpenFiles

_logger = logging.getLogger(__name__)

ZERO_UUID = bytes(16)


@dataclass(frozen=True, slots=True)
class SharedLogSettings:
    """The settings and resources that all logs of a broker share."""

    files: Files
    open_files: OpenFiles
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    verify_transactions: bool = True


def load(
    directory: Path,
    topic: str,
    partition: int,
    config: LogConfig,
    settings: SharedLogSettings,
    *,
    now_ms: int,
    topic_id: bytes = ZERO_UUID,
    known_id: bytes | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Log:
    """Load the log in the existing folder `directory`, which may be empty.

    clean             the last owner stopped cleanly, so no recovery is needed
    recovery_point    from the checkpoints of the log directory, like `log_start_offset`
    topic_id          written to `partition.metadata` if that file is missing
    known_id          the id that the topic has now, None if it is not known

    Raises OtherTopic if the topic id in the folder differs from `topic_id` or `known_id`, OSError,
    LogDirError.
    """
    loader = _Loader(directory, config, settings, now_ms, recovery_point, log_start_offset)
    topic_id = _topic_id(settings.files, directory, topic_id, flushed=recovery_point > 0)
    if known_id is not None and topic_id not in (ZERO_UUID, known_id):
        raise OtherTopic(_other_topic(directory, topic_id, known_id))
    loader.find_segments(loader.tidy())
    end = loader.open_cleanly() if clean else None
    if end is None:
        end = loader.recover()
    if loader.segments.active.base_offset in loader.shared:
        loader.segments.active.own()
    storage = Storage(directory, topic, partition, settings.files, settings.open_files)
    durability = Durability(
        storage,
        loader.segments,
        loader.epochs,
        loader.snapshots,
        recovery_point=end if clean else min(recovery_point, end),
        now_ms=now_ms,
        on_disk=recovery_point > 0 and not loader.created,
    )
    return Log(
        storage,
        topic_id,
        config,
        segments=loader.segments,
        epochs=loader.epochs,
        producers=loader.producers,
        snapshots=loader.snapshots,
        durability=durability,
        log_start_offset=loader.log_start_offset,
        log_end_offset=end,
    )


def _topic_id(files: Files, directory: Path, expected: bytes, *, flushed: bool) -> bytes:
    """Return the topic id in the folder; writes `expected` if there is none.

    `partition.metadata` is on disk after the log's first flush (`flushed`).  Before that a power
    cut may damage it, so a damaged file is then written again.
    """
    try:
        folder_id = partition_metadata.read(files, directory)
    except CorruptFile as error:
        if flushed:
            raise LogDirError(f"{error}; it is not known which topic the folder is of") from error
        _logger.warning("%s; writing it again", error)
        folder_id = None
    if folder_id is None:
        if expected != ZERO_UUID:
            partition_metadata.write(files, directory, expected)
        return expected
    if expected not in (ZERO_UUID, folder_id):
        raise OtherTopic(_other_topic(directory, folder_id, expected))
    return folder_id


def _other_topic(directory: Path, folder_id: bytes, expected: bytes) -> str:
    return f"{directory} belongs to topic id {uuid_text(folder_id)}, not to {uuid_text(expected)}"


class _Loader:
    """The state of the load of one folder."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        settings: SharedLogSettings,
        now_ms: int,
        recovery_point: int,
        log_start_offset: int,
    ) -> None:
        """Describe the log to load; nothing is read yet.

        `recovery_point` and `log_start_offset` are those of the directory's checkpoints.
        """
        self.directory = directory
        self.config = config
        self.settings = settings
        self.files = settings.files
        self.now_ms = now_ms
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.created = False
        self.shared: set[int] = set()
        """Base offsets of segments whose file a snapshot shares by a hard link (`capture`)."""
        self.segments = Segments()
        self.snapshots = ProducerSnapshots(directory, self.files)
        self.epochs = LeaderEpochCache(directory, self.files)
        self.producers = ProducerState(
            settings.producer_id_expiration_ms, verify_transactions=settings.verify_transactions
        )

    # Names

    def _names(self) -> list[str]:
        with os.scandir(self.directory) as entries:
            return [entry.name for entry in entries if entry.is_file()]

    def tidy(self) -> list[str]:
        """Finish or undo removals and compactions of the last owner; returns the files' names."""
        listed = self._names()
        leftovers = [name for name in listed if name.endswith((names.DELETED, names.CLEANED))]
        cleaned = [names.offset_of_file_name(n) for n in leftovers if n.endswith(names.CLEANED)]
        unfinished_from = min((offset for offset in cleaned if offset is not None), default=None)
        swaps = []
        for name in listed:
            if not name.endswith(names.SWAP):
                continue
            offset = names.offset_of_file_name(name)
            if unfinished_from is not None and offset is not None and offset >= unfinished_from:
                leftovers.append(name)  # part of an unfinished split of a segment
            else:
                swaps.append(name)
        for name in sorted(leftovers, key=_removed_late):
            self.files.remove(self.directory / name)
        if swaps:
            self._finish_swap(listed, swaps)
        return self._names() if leftovers or swaps else listed

    def _finish_swap(self, listed: list[str], swaps: list[str]) -> None:
        """Complete a swap of the cleaner that a stop interrupted.

        Remove the old segments in the range of the `.swap` files, then give those their names.
        """
        logs = [name for name in swaps if name.endswith(names.LOG + names.SWAP)]
        if logs:
            first = min(self._swap_range(name)[0] for name in logs)
            end = max(self._swap_range(name)[1] for name in logs)
            for name in listed:
                offset = names.offset_of_file_name(name)
                if offset is not None and first <= offset < end and name not in swaps:
                    self.files.remove(self.directory / name)
        for name in swaps:
            path = self.directory / name
            self.files.rename(path, path.with_name(name.removesuffix(names.SWAP)))
        self.files.fsync_dir(self.directory)

    def _swap_range(self, name: str) -> tuple[int, int]:
        """Base offset and next offset of a `.log.swap` file."""
        base = next_offset = names.offset_of_file_name(name) or 0
        file = self.files.open_existing(self.directory / name)
        for _, header in scan.headers(self.files, file, 0, self.files.size(file)):
            next_offset = header.last_offset + 1
        return base, next_offset

    def find_segments(self, names_there: Iterable[str]) -> None:
        """Make a segment of each .log file; remove index files without a .log file."""
        listed = set(names_there)
        segments = []
        for name in sorted(listed):
            offset = names.offset_of_file_name(name)
            if offset is None:
                continue
            if name.endswith(names.LOG):
                segments.append(self._segment(offset, listed))
            elif name.endswith(names.PRODUCER_SNAPSHOT):
                self.snapshots.offsets.add(offset)
            elif names.segment_file_name(offset, names.LOG) not in listed:
                _logger.warning("%s has no log file; removing it", self.directory / name)
                self.files.remove(self.directory / name)
        self.segments = Segments(segments)
        self.epochs.load()

    def _segment(self, base_offset: int, listed: set[str]) -> Segment:
        """Return the segment at `base_offset`; rebuild its indexes if one is missing.

        `listed` has the names of the files in the folder. Raises OSError.
        """
        stem = names.segment_file_name(base_offset, "")
        path = f"{self.directory}/{stem}{names.LOG}"
        status = os.stat(path)
        if status.st_nlink > 1:
            self.shared.add(base_offset)
        segment = Segment(
            self.directory,
            base_offset,
            self.files,
            self.settings.open_files,
            config=self.config,
            created_ms=self.now_ms,
            size_bytes=status.st_size,
            has_txn_index=stem + names.TXN_INDEX in listed,
        )
        if any(stem + suffix not in listed for suffix in (names.OFFSET_INDEX, names.TIME_INDEX)):
            _logger.warning("%s lacks an index; rebuilding it", path)
            try:
                segment.rebuild_indexes()
            except CorruptBatch as error:
                _logger.warning("%s: %s", path, error)  # the recovery cuts the log there
        return segment

    # State

    def open_cleanly(self) -> int | None:
        """Return the log end offset, without a scan; None if a clean stop cannot have left these
        files.
        """
        try:
            if not all(segment.txn_index.valid() for segment in self.segments):
                raise CorruptFile("a transaction index is not in order")
            end = self._settle()
            if self.snapshots.latest() is None:
                # A clean stop leaves a snapshot in each log that had producers: this one has none.
                self.producers.clear(end)
                self.snapshots.take(self.producers)
            else:
                self._rebuild_producers(end)
        except (CorruptBatch, CorruptFile) as error:
            _logger.warning("%s was not stopped cleanly (%s); recovering it", self.directory, error)
            return None
        return end

    def _rebuild_producers(self, end: int) -> None:
        """Rebuild the producer state up to offset `end`, and write a snapshot of it."""
        replay.rebuild(
            self.producers,
            self.snapshots,
            self.segments,
            self.log_start_offset,
            end,
            self.now_ms,
        )
        self.snapshots.take(self.producers)

    def _settle(self) -> int:
        """Make all parts agree on the log start offset and the log end offset; returns the latter.

        The checkpoint has a log start offset only for records on disk.  One behind the log end is
        damaged, or that of another log of this name, and is ignored: better that deleted records
        are visible again than that all records count as deleted.
        """
        last, end = None, self.log_start_offset
        if self.segments:
            last = self.segments.active.last_header()
            end = self.segments.active.base_offset if last is None else last.last_offset + 1
        if end < self.log_start_offset:
            message = "%s: ignoring the log start offset %d, which is behind the log end %d"
            _logger.warning(message, self.directory, self.log_start_offset, end)
            self.log_start_offset = self.segments.first.base_offset
        if not self.segments:
            self._create_segment()
        self.log_start_offset = max(self.log_start_offset, self.segments.first.base_offset)
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(self.log_start_offset)
        if not epoch_check.agrees(self.epochs, last):
            epoch_check.make_anew(self.epochs, self.segments, self.log_start_offset)
        self.snapshots.remove_strays(segment.base_offset for segment in self.segments)
        return end

    def _create_segment(self) -> None:
        """Create the first, empty segment at the log start offset."""
        self.created = True
        self.segments.add(
            Segment.create(
                self.directory,
                self.log_start_offset,
                self.files,
                self.settings.open_files,
                self.config,
                self.now_ms,
            )
        )

    def _remove(self, segments: list[Segment]) -> None:
        """Remove segments with their files and producer snapshots, durably."""
        for segment in segments:
            self.segments.remove(segment)
            segment.discard()
            for path in segment.paths():
                self.files.remove(path)
            self.snapshots.remove(segment.base_offset)
        # Without this a power cut would bring them back, behind batches that are appended later.
        self.files.fsync_dir(self.directory)

    # Recovery

    def recover(self) -> int:
        """Scan all batches that may not have reached the disk; returns the log end offset."""
        unflushed = self.segments.from_floor(self.recovery_point)
        if not all(segment.txn_index.valid() for segment in self.segments):
            unflushed = list(self.segments)
        if unflushed:
            self._recover(unflushed)
        end = self._settle()
        if unflushed and self._knows_producers(end):
            self.snapshots.take(self.producers)
        else:
            self._rebuild_producers(end)
        self.epochs.flush()
        return end

    def _knows_producers(self, end: int) -> bool:
        """Return whether the scan has read all batches up to `end`, so that the producer state is
        right.

        It has not if records before the log start offset are still in the first segment.
        """
        begins = self.log_start_offset <= self.segments.first.base_offset
        return begins and self.producers.end_offset == end

    def _recover(self, unflushed: list[Segment]) -> None:
        """Check every batch of the unflushed segments, and rebuild their indexes and producers.

        The log is cut at the first corrupt batch or gap: everything behind is removed, with a
        warning.
        """
        first, start = self.segments.first.base_offset, unflushed[0].base_offset
        # From the first segment on: the log start offset is not checked yet.
        replay.rebuild(self.producers, self.snapshots, self.segments, first, start, self.now_ms)
        self.snapshots.take(self.producers)
        for number, segment in enumerate(unflushed):
            if number and self._is_gap(segment.base_offset):
                _logger.warning("Removing %s: the batches before it are lost", segment.path)
                self._remove(unflushed[number:])
                return
            self.producers.end_offset = max(self.producers.end_offset, segment.base_offset)
            self.snapshots.take(self.producers)
            if self._recover_segment(segment):
                self._remove(unflushed[number + 1 :])
                return

    def _is_gap(self, base_offset: int) -> bool:
        """Return whether the end of the previous segment is lost.

        A power cut may remove the end of a segment that was never flushed, just behind a batch, and
        leave the next segment whole.  Apache Kafka would continue behind the gap.  Only compaction
        makes gaps between segments.
        """
        return not self.config.compact and base_offset > self.producers.end_offset

    def _recover_segment(self, segment: Segment) -> bool:
        """Check each batch and rebuild the indexes; True if the segment was cut."""
        size_bytes = self.files.size(segment.open())
        segment.reset_indexes()
        valid = 0
        try:
            for position, header, _ in scan.batches(self.files, segment.open(), 0, size_bytes):
                _check_order(segment, header, self.producers.end_offset)
                self._recover_batch(segment, position, header)
                valid = position + header.size_bytes
        except CorruptBatch as error:
            _logger.warning("Cutting %s at byte %d: %s", segment.path, valid, error)
        segment.cut(valid)
        segment.become_inactive()
        return valid < size_bytes

    def _recover_batch(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Note one intact batch in the indexes, leader epochs and producer state."""
        segment.note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)
        if header.partition_leader_epoch > self.epochs.latest_epoch:
            self.epochs.add(header.partition_leader_epoch, header.base_offset)
        aborted = replay.note(self.producers, segment, position, header)
        if aborted is not None:
            segment.txn_index.append(aborted)


def _removed_late(name: str) -> int:
    """Sort key: a `.cleaned` file marks its `.swap` files as incomplete, so it is removed last."""
    return name.endswith(names.CLEANED)


def _check_order(segment: Segment, header: BatchHeader, next_offset: int) -> None:
    """Raise CorruptBatch if offsets do not grow, or are too far from the base offset."""
    first = header.base_offset if header.magic == 2 else header.last_offset
    if first < next_offset or header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise CorruptBatch(f"a batch from offset {first} on cannot follow {next_offset - 1}")
