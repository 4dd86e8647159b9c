"""MetadataLog: `__cluster_metadata-0` on the disk, in Apache Kafka's format.

The folder has the segments of the log, and snapshots of everything before an offset:

    00000000000000000000.log                         segments and their indexes
    00000000000000000046-0000000001.checkpoint       a snapshot: <end offset>-<epoch>
    leader-epoch-checkpoint, partition.metadata, quorum-state

So Apache Kafka can go on from it, and its tools can read it.  An observer's appends are not
flushed one by one: what a power cut takes is fetched again (as Apache Kafka does).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.cluster.stores.kraft import records
from kwire.cluster.stores.kraft.observing import TOPIC, TOPIC_ID, SnapshotId
from kwire.cluster.stores.kraft.records import BadMetadata, MetadataBatch
from kwire.codecs.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.log.follower import append_as_follower
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery import loader
from kwire.log.recovery.loader import SharedLogSettings
from kwire.log.recovery.truncation import truncate_fully, truncate_to
from kwire.log.upkeep.retention import delete_expired_segments

if TYPE_CHECKING:
    from kwire.log.config import LogConfig
    from kwire.log.directory.files import Files, OpenFile

FOLDER: Final = f"{TOPIC}-0"
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""The maximum size of a batch: KafkaRaftClient.MAX_BATCH_SIZE_BYTES."""
_READ_BYTES: Final = 1024 * 1024
_OPEN_FILES_MAX: Final = 8
CHECKPOINT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PART: Final = ".part"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """When snapshots are made, and old ones removed with the log before them."""

    snapshot_after_bytes: int = 20 * 1024 * 1024
    """metadata.log.max.record.bytes.between.snapshots."""
    snapshot_after_ms: int = 3_600_000
    """metadata.log.max.snapshot.interval.ms; 0 means never because of time."""
    bytes_max: int = 100 * 1024 * 1024
    """metadata.max.retention.bytes; -1 means no limit."""
    age_ms_max: int = 7 * 24 * 3_600_000
    """metadata.max.retention.ms; -1 means no limit."""


def checkpoint_name(snapshot: SnapshotId) -> str:
    """Return the name of a snapshot's file."""
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


class MetadataLog:
    """See the module.  Raises OSError and LogError, and BadMetadata where it says so."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        config: LogConfig,
        now_ms: int,
        retention: Retention | None = None,
    ) -> None:
        """Open the log in `folder`, which may be empty; a torn batch at its end is removed.

        Raises BadMetadata if the records before its first segment are missing.
        """
        self.folder = folder
        self.files = files
        self.retention = retention or Retention()
        self.snapshots = self._find_snapshots()
        settings = SharedLogSettings(files, OpenFiles(_OPEN_FILES_MAX))
        config = replace(
            config,
            cleanup_policy=frozenset(("delete",)),
            max_message_bytes=BATCH_BYTES_MAX,
            retention_bytes=-1,  # snapshots decide what may go
            retention_ms=-1,
            file_delete_delay_ms=0,  # nobody reads the files but this object
        )
        self._log = loader.load(
            folder, TOPIC, 0, config, settings, now_ms=now_ms, topic_id=TOPIC_ID
        )
        self._begun: tuple[SnapshotId, OpenFile, int] | None = None
        newest = self.newest_snapshot
        if newest is not None and newest.end_offset > self._log.log_end_offset:
            # A stop between the rename of a snapshot and the truncation of the log.
            truncate_fully(self._log, newest.end_offset, now_ms)
        if self.start_offset > (0 if newest is None else newest.end_offset):
            raise BadMetadata(
                f"{folder} begins at offset {self.start_offset}, and has no snapshot of the records"
                " before it; remove the folder, and they are fetched from the controllers again"
            )
        self._remove_due(now_ms)

    def _find_snapshots(self) -> list[SnapshotId]:
        """Return the snapshots, the oldest first; removes unfinished ones."""
        found = []
        for path in sorted(self.folder.iterdir()):
            match = CHECKPOINT_NAME.fullmatch(path.name)
            if match is not None:
                found.append(SnapshotId(int(match[1]), int(match[2])))
            elif path.name.endswith(f".checkpoint{_PART}"):
                self.files.remove(path)
        return found

    # -- LogView

    @property
    def start_offset(self) -> int:
        """The offset of the first record that the log still has."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot that it follows; 0 in an empty log."""
        if self._log.epochs.latest_epoch >= 0:
            return self._log.epochs.latest_epoch
        newest = self.newest_snapshot
        return 0 if newest is None else newest.epoch

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest epoch <= `epoch` and its end offset."""
        known, end = self._log.epochs.end_offset_for(epoch, self.end_offset)
        return (known, end) if known >= 0 else (self.last_epoch, self.end_offset)

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def size_bytes(self) -> int:
        """The size of all segments and snapshots."""
        snapshots = (self._path(each).stat().st_size for each in self.snapshots)
        return self._log.segments.size_bytes + sum(snapshots)

    # -- the log

    def append(
        self, batches: bytes | bytearray | memoryview, leader_epoch: int, now_ms: int
    ) -> None:
        """Append the complete batches that the leader sent."""
        append_as_follower(
            self._log,
            memoryview(batches) if isinstance(batches, bytes) else batches,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
        )

    def truncate(self, offset: int, now_ms: int) -> None:
        """Remove all records from `offset` on."""
        truncate_to(self._log, offset, now_ms)
        self._remove_due(now_ms)

    def batches(self, start: int, end: int) -> Iterator[MetadataBatch]:
        """Yield the batches from offset `start` on that end before `end`.

        Raises BadMetadata for a batch that cannot be followed.
        """
        while start < end:
            region = self._log.read(start, _READ_BYTES, max_offset=end, min_one_batch=True)
            if region is None:
                return
            before = start
            for batch in records.decode_batches(region.read()):
                if batch.base_offset >= start:
                    yield batch
                    start = batch.last_offset + 1
            if start == before:
                raise BadMetadata(f"{self.folder} has no whole batch at offset {start}")

    # -- snapshots

    def snapshot(self, snapshot: SnapshotId) -> Iterator[MetadataBatch]:
        """Yield the batches of a snapshot.  Raises BadMetadata if it is damaged."""
        yield from records.decode_batches(self.files.read(self._path(snapshot)))

    def begin_snapshot(self, snapshot: SnapshotId) -> None:
        """Begin the file of a snapshot that is downloaded; drop one that was begun before."""
        self.drop_begun()
        file = self.files.open(self._part(snapshot))
        self.files.ftruncate(file.fd, 0)
        self._begun = snapshot, file, 0

    def add_piece(self, content: bytes | bytearray | memoryview) -> None:
        """Append bytes to the file of the snapshot that was begun."""
        assert self._begun is not None, "no snapshot was begun"
        snapshot, file, size_bytes = self._begun
        self.files.write_all(file, content, size_bytes)
        self._begun = snapshot, file, size_bytes + len(content)

    def drop_begun(self) -> None:
        """Remove the unfinished snapshot, if there is one."""
        if self._begun is not None:
            self.files.remove(self._part(self._begun[0]))
            self._begun = None

    def begun_batches(self) -> list[MetadataBatch]:
        """Return the batches of the snapshot that was begun.  Raises BadMetadata."""
        assert self._begun is not None, "no snapshot was begun"
        return list(records.decode_batches(self.files.read(self._part(self._begun[0]))))

    def install(self, now_ms: int) -> None:
        """Keep the snapshot that was begun; it replaces the log and the snapshots before it."""
        assert self._begun is not None, "no snapshot was begun"
        snapshot, file, _ = self._begun
        self._keep(snapshot, file)
        self._begun = None
        truncate_fully(self._log, snapshot.end_offset, now_ms)
        self._forget_before(snapshot)
        self._remove_due(now_ms)

    def write_snapshot(self, snapshot: SnapshotId, batches: Iterable[bytes]) -> None:
        """Write and flush a snapshot of this broker's own image to its unfinished file.

        It may run in another thread.  Call `keep_snapshot` afterwards.
        """
        path = self._part(snapshot)
        file = self.files.open(path)
        self.files.ftruncate(file.fd, 0)
        position = 0
        for batch in batches:
            self.files.write_all(file, batch, position)
            position += len(batch)
        self.files.fsync(file.fd)

    def keep_snapshot(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Keep the snapshot that `write_snapshot` wrote, and remove what `clean` removes.

        If a newer one was installed meanwhile, the written one is removed.
        """
        if self.newest_snapshot is not None and snapshot < self.newest_snapshot:
            self.files.remove(self._part(snapshot))
            return
        self._rename(snapshot)
        self.clean(now_ms)

    def _keep(self, snapshot: SnapshotId, file: OpenFile) -> None:
        self.files.fsync(file.fd)
        self._rename(snapshot)

    def _rename(self, snapshot: SnapshotId) -> None:
        """Give a flushed snapshot its final name."""
        self.files.rename(self._part(snapshot), self._path(snapshot))
        self.files.fsync_dir(self.folder)
        if snapshot not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, snapshot])

    def clean(self, now_ms: int) -> None:
        """Remove the oldest snapshots, and the log before the next ones, by size and by age.

        The newest snapshot always stays.
        """
        while len(self.snapshots) > 1 and self._is_due(self.snapshots[0], now_ms):
            following = self.snapshots[1]
            self._forget_before(following)
            self._log.increment_log_start_offset(following.end_offset)
            delete_expired_segments(self._log, now_ms, self._log.log_end_offset)
        self._remove_due(now_ms)

    def _is_due(self, oldest: SnapshotId, now_ms: int) -> bool:
        limits = self.retention
        if 0 <= limits.bytes_max < self.size_bytes:
            return True
        return 0 <= limits.age_ms_max < now_ms - self._time_of(oldest)

    def _time_of(self, snapshot: SnapshotId) -> int:
        """Return the time of the last record in a snapshot, in ms since the epoch."""
        first = next(self.snapshot(snapshot)).records[0]
        assert isinstance(first, SnapshotHeaderRecord)
        return first.last_contained_log_timestamp

    def _forget_before(self, snapshot: SnapshotId) -> None:
        """Remove the snapshots before this one."""
        for each in [each for each in self.snapshots if each < snapshot]:
            self.files.remove(self._path(each))
            self.snapshots.remove(each)

    # -- files

    def _path(self, snapshot: SnapshotId) -> Path:
        return self.folder / checkpoint_name(snapshot)

    def _part(self, snapshot: SnapshotId) -> Path:
        return self.folder / f"{checkpoint_name(snapshot)}{_PART}"

    def _remove_due(self, now_ms: int) -> None:
        for path in self._log.storage.take_due(now_ms):
            self.files.remove(path)

    def close(self) -> None:
        """Flush everything and close the files, as in a clean stop."""
        self.drop_begun()
        self._log.close()
