"""Opening a partition's folder: tidying up, recovery where it is needed, and the state of it all.

After a clean stop nothing is scanned.  Otherwise each segment from the one that holds the recovery
point on is read whole: its batches are checked, its indexes made anew, and the log is cut at the
first batch that does not hold; segments behind a cut are removed.  (Kafka's LogLoader.)

    name ends with   left over from                         what is done
    .deleted         a removal under way                    removed
    .cleaned         compaction that had not finished       removed
    .swap            compaction that had: its result         the segments it replaces are removed,
                                                            then it is renamed to its place
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
from kwire.log.producers.snapshots import Snapshots
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
class LogSettings:
    """What all logs of a broker share."""

    files: Files
    open_files: OpenFiles
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    verify_transactions: bool = True


def load(
    directory: Path,
    topic: str,
    partition: int,
    config: LogConfig,
    settings: LogSettings,
    *,
    now_ms: int,
    topic_id: bytes = ZERO_UUID,
    known_id: bytes | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Log:
    """Open the log in `directory`, which must be there and may be empty.

    `clean` says that the last owner stopped cleanly, so nothing needs a scan; `recovery_point` and
    `log_start_offset` are what the checkpoints of the log directory say.  The topic id comes from
    `partition.metadata`, which is written when it is missing and `topic_id` is given.  OtherTopic
    if it is neither that one nor `known_id`, the one that the topic has today.
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
    """The topic id that the folder has, or gets.

    The first flush makes `partition.metadata` durable; before that a power cut may spoil it.
    """
    try:
        found = partition_metadata.read(files, directory)
    except CorruptFile as error:
        if flushed:
            raise LogDirError(f"{error}; the partition cannot be told from another") from error
        _logger.warning("%s; writing it anew", error)
        found = None
    if found is None:
        if expected != ZERO_UUID:
            partition_metadata.write(files, directory, expected)
        return expected
    if expected not in (ZERO_UUID, found):
        raise OtherTopic(_other_topic(directory, found, expected))
    return found


def _other_topic(directory: Path, found: bytes, expected: bytes) -> str:
    return f"{directory} belongs to topic id {uuid_text(found)}, not to {uuid_text(expected)}"


class _Loader:
    """The state while one folder is opened."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        settings: LogSettings,
        now_ms: int,
        recovery_point: int,
        log_start_offset: int,
    ) -> None:
        self.directory = directory
        self.config = config
        self.settings = settings
        self.files = settings.files
        self.now_ms = now_ms
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.created = False
        self.shared: set[int] = set()
        """Base offsets of segments whose file has another name, too: a snapshot's (`capture`)."""
        self.segments = Segments()
        self.snapshots = Snapshots(directory, self.files)
        self.epochs = LeaderEpochCache(directory, self.files)
        self.producers = ProducerState(
            settings.producer_id_expiration_ms, verify_transactions=settings.verify_transactions
        )

    # Names

    def _names(self) -> list[str]:
        with os.scandir(self.directory) as entries:
            return [entry.name for entry in entries if entry.is_file()]

    def tidy(self) -> list[str]:
        """Finish or undo what was under way when the last owner died; gives the files' names."""
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
                leftovers.append(name)  # part of a split that had not finished
            else:
                swaps.append(name)
        for name in sorted(leftovers, key=_removed_late):
            self.files.remove(self.directory / name)
        if swaps:
            self._finish_swap(listed, swaps)
        return self._names() if leftovers or swaps else listed

    def _finish_swap(self, listed: list[str], swaps: list[str]) -> None:
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
        """A segment is what has a .log file; other files without one are orphans."""
        listed = set(names_there)
        found = []
        for name in sorted(listed):
            offset = names.offset_of_file_name(name)
            if offset is None:
                continue
            if name.endswith(names.LOG):
                found.append(self._segment(offset, listed))
            elif name.endswith(names.PRODUCER_SNAPSHOT):
                self.snapshots.offsets.add(offset)
            elif names.segment_file_name(offset, names.LOG) not in listed:
                _logger.warning("%s has no log file; removing it", self.directory / name)
                self.files.remove(self.directory / name)
        self.segments = Segments(found)
        self.epochs.load()

    def _segment(self, base_offset: int, listed: set[str]) -> Segment:
        stem = names.segment_file_name(base_offset, "")
        path = f"{self.directory}/{stem}{names.LOG}"
        found = os.stat(path)
        if found.st_nlink > 1:
            self.shared.add(base_offset)
        segment = Segment(
            self.directory,
            base_offset,
            self.files,
            self.settings.open_files,
            config=self.config,
            created_ms=self.now_ms,
            size_bytes=found.st_size,
            has_txn_index=stem + names.TXN_INDEX in listed,
        )
        if any(stem + suffix not in listed for suffix in (names.OFFSET_INDEX, names.TIME_INDEX)):
            _logger.warning("%s lacks an index; rebuilding it", path)
            try:
                segment.rebuild_indexes()
            except CorruptBatch as error:
                _logger.warning("%s: %s", path, error)  # recovery is for that
        return segment

    # State

    def open_cleanly(self) -> int | None:
        """The log end offset, without a scan; None if the log is not what a clean stop leaves."""
        try:
            if not all(segment.txn_index.valid() for segment in self.segments):
                raise CorruptFile("a transaction index is not in order")
            end = self._settle()
            if self.snapshots.latest() is None:
                # A stop leaves a snapshot wherever there was a producer.
                self.producers.clear(end)
                self.snapshots.take(self.producers)
            else:
                self._rebuild_producers(end)
        except (CorruptBatch, CorruptFile) as error:
            _logger.warning("%s was not stopped cleanly (%s); recovering it", self.directory, error)
            return None
        return end

    def _rebuild_producers(self, end: int) -> None:
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
        """Make the parts agree about where the log starts and ends.

        A log start offset behind the end is damaged, or of another log of that name: it is written
        down for what is on disk only.  What was deleted may be seen again then, instead of all
        being taken for deleted.
        """
        last, end = None, self.log_start_offset
        if self.segments:
            last = self.segments.active.last_header()
            end = self.segments.active.base_offset if last is None else last.last_offset + 1
        if end < self.log_start_offset:
            what = "%s: a log start offset of %d is behind the end, %d; ignoring it"
            _logger.warning(what, self.directory, self.log_start_offset, end)
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
        for segment in segments:
            self.segments.remove(segment)
            segment.discard()
            for path in segment.paths():
                self.files.remove(path)
            self.snapshots.remove(segment.base_offset)
        # Or a power cut would bring them back, behind what is appended in their place.
        self.files.fsync_dir(self.directory)

    # Recovery

    def recover(self) -> int:
        """Scan what may not have reached the disk; gives the log end offset."""
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
        """Whether the scan came to the end of a log of which nothing was deleted before its start.

        Then it has seen all that another walk over the same batches would tell of producers.
        """
        begins = self.log_start_offset <= self.segments.first.base_offset
        return begins and self.producers.end_offset == end

    def _recover(self, unflushed: list[Segment]) -> None:
        first, start = self.segments.first.base_offset, unflushed[0].base_offset
        # From the first segment on: whether the log start offset is right is not known yet.
        replay.rebuild(self.producers, self.snapshots, self.segments, first, start, self.now_ms)
        self.snapshots.take(self.producers)
        for number, segment in enumerate(unflushed):
            if number and self._is_gap(segment.base_offset):
                _logger.warning("%s has no predecessor any more; removing it", segment.path)
                self._remove(unflushed[number:])
                return
            self.producers.end_offset = max(self.producers.end_offset, segment.base_offset)
            self.snapshots.take(self.producers)
            if self._recover_segment(segment):
                self._remove(unflushed[number + 1 :])
                return

    def _is_gap(self, base_offset: int) -> bool:
        """Whether the end of the segment before this one is lost.

        A power cut may leave a segment without what was never fsynced, cut just behind a batch,
        and the next one whole; Apache Kafka would go on behind the hole.  Segments follow one
        another without a gap, unless compaction made one.
        """
        return not self.config.compact and base_offset > self.producers.end_offset

    def _recover_segment(self, segment: Segment) -> bool:
        """Check each batch and rebuild the indexes; True if a bad one cut the segment."""
        held = self.files.size(segment.open())
        segment.reset_indexes()
        valid = 0
        try:
            for position, header, _ in scan.batches(self.files, segment.open(), 0, held):
                _check_order(segment, header, self.producers.end_offset)
                self._recover_batch(segment, position, header)
                valid = position + header.size_bytes
        except CorruptBatch as error:
            _logger.warning("%s is cut at byte %d: %s", segment.path, valid, error)
        segment.cut(valid)
        segment.become_inactive()
        return valid < held

    def _recover_batch(self, segment: Segment, position: int, header: BatchHeader) -> None:
        segment.note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)
        if header.partition_leader_epoch > self.epochs.latest_epoch:
            self.epochs.add(header.partition_leader_epoch, header.base_offset)
        aborted = replay.note(self.producers, segment, position, header)
        if aborted is not None:
            segment.txn_index.append(aborted)


def _removed_late(name: str) -> int:
    """A `.cleaned` file says that the `.swap` files beside it are no whole: it goes last."""
    return name.endswith(names.CLEANED)


def _check_order(segment: Segment, header: BatchHeader, next_offset: int) -> None:
    """Offsets only grow, and an index can only name those near the segment's base."""
    first = header.base_offset if header.magic == 2 else header.last_offset
    if first < next_offset or header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise CorruptBatch(f"a batch from offset {first} on cannot follow {next_offset - 1}")
