"""Moves partitions between log directories while they are appended to (KIP-113).

The copy is a log in the folder `<topic>-<partition>.<hex>-future` of the target directory.  It
follows the served log like a replica.  When the copy has all records and is flushed, it replaces
the log:

1. the folder of the old log becomes `<topic>-<partition>.<hex>-delete`, with the same hex digits;
2. the folder of the copy becomes `<topic>-<partition>`.

If the broker dies between the two steps, the next start finds the copy and the deleted folder of
the same hex digits, and does step 2.  If it dies before step 1, the next start continues the copy,
provided that it is of the same topic and has the same batches as the log.  If the old log is lost
with its disk, the copy is served instead (Kafka's abandoned future logs).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.log.directory import log_dir, partition_metadata
from kwire.log.directory.log_dirs import DeletedFolder
from kwire.log.directory.shortage import passes
from kwire.log.error import LogError
from kwire.log.follower import append_as_follower
from kwire.log.recovery import loader
from kwire.log.recovery.truncation import truncate_fully

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kwire.log.config import LogConfig
    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.log.directory.log_dir import LogDir
    from kwire.log.directory.log_dirs import LogDirs
    from kwire.log.log import Log
    from kwire.log.upkeep.flush import Flush
    from kwire.log.upkeep.maintenance import Maintenance

_logger = logging.getLogger(__name__)

COPY_BYTES = 1 << 20
"""The bytes that are copied at once on the loop: a few milliseconds of work."""


@dataclass(slots=True)
class Copy:
    """The copy of a partition in `directory`; `unique` has the hex digits of its folder's name."""

    log: Log
    directory: LogDir
    unique: str
    source_generation: int = 0


class Moves:
    """The copies in the log directories, by (topic, partition)."""

    def __init__(self, dirs: LogDirs, maintenance: Maintenance) -> None:
        self._dirs = dirs
        self._maintenance = maintenance
        dirs.when_failed = self._dir_failed
        self.copies: dict[TopicPartition, Copy] = {}

    # -- asking for a move

    def move(self, key: TopicPartition, path: str) -> None:
        """Begin to move a partition to the log directory at `path`; does nothing if it is there.

        A move to another directory that is under way is cancelled.  Raises LogError:
        LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE.
        """
        target = self.directory_at(path)
        source = self._dirs.logs.get(key)
        if source is None:
            raise LogError(ErrorCode.REPLICA_NOT_AVAILABLE)
        source.check_online()
        if (copy := self.copies.get(key)) is not None:
            if copy.directory is target:
                return
            self.cancel(key)
        if source.dir.parent != target.path:
            self.copies[key] = self._begin(key, source, target)

    def directory_at(self, path: str) -> LogDir:
        """Return the online log directory with exactly this absolute path.  Raises LogError."""
        for directory in self._dirs.online_dirs:
            if str(directory.path.absolute()) == path:
                return directory
        offline = any(str(failed.absolute()) == path for failed in self._dirs.offline_dirs)
        raise LogError(ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.LOG_DIR_NOT_FOUND)

    def _begin(self, key: TopicPartition, source: Log, target: LogDir) -> Copy:
        """Create an empty copy of `source` in the directory `target`, and return it.

        It begins at the log start offset of the source. Raises LogError: the name is too long, or
        the disk fails.
        """
        unique = log_dir.new_unique()
        name = log_dir.future_folder(*key, unique)
        if len(name.encode()) > log_dir.NAME_BYTES_MAX:
            raise LogError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is too long for a folder")
        try:
            copy = self._open(key, target, target.make_folder(name), unique, source)
        except OSError as error:
            raise self._failed(target, error) from error
        if source.log_start_offset:
            self._restart(copy, source)
        return copy

    def _open(
        self, key: TopicPartition, directory: LogDir, path: Path, unique: str, source: Log
    ) -> Copy:
        """Load the copy in the folder `path`; a disk failure of it takes its directory offline."""
        log = loader.load(
            path,
            *key,
            source.config,
            self._dirs.settings,
            now_ms=self._dirs.clock(),
            topic_id=source.topic_id,
        )
        log.on_storage_failure = lambda error: self._dirs.dir_failed(directory, error)
        return Copy(log, directory, unique, source.durability.generation)

    def _failed(self, directory: LogDir, error: OSError) -> LogError:
        if not passes(error):
            self._dirs.dir_failed(directory, error)
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    # -- copying

    def offset_lag(self, key: TopicPartition) -> int:
        """The number of offsets that the copy is behind the served log."""
        source = self._dirs.logs.get(key)
        end = self.copies[key].log.log_end_offset
        return 0 if source is None else max(0, source.log_end_offset - end)

    def copy_some(self, key: TopicPartition) -> int:
        """Copy up to COPY_BYTES; returns the number of bytes, 0 if the copy has all records.

        Raises LogError if one of the disks fails; the move ends if it is the copy's disk.  Also
        raises it for a batch of a later epoch than the log has: a copy without that batch must not
        count as complete.
        """
        source, copy = self._dirs.logs[key], self.copies[key]
        generation = source.durability.generation
        if copy.source_generation != generation:  # the log was truncated: the copy may be wrong
            copy.source_generation = generation
            self._restart(copy, source)
        if copy.log.log_end_offset < _first_offset(source):  # its next batches were deleted
            self._restart(copy, source)
        at, end = copy.log.log_end_offset, source.log_end_offset
        if at >= end:
            return 0
        start = max(at, source.log_start_offset)
        region = source.read(start, COPY_BYTES, max_offset=end, min_one_batch=True)
        if region is None:
            return 0
        epoch, data = source.epochs.latest_epoch, bytearray(region.read())
        now_ms = self._dirs.clock()
        if append_as_follower(copy.log, data, leader_epoch=epoch, now_ms=now_ms) is None:
            raise LogError(ErrorCode.CORRUPT_MESSAGE, f"the batch at {at} has an unknown epoch")
        return region.size_bytes

    def _restart(self, copy: Copy, source: Log) -> None:
        truncate_fully(copy.log, _first_offset(source), self._dirs.clock())

    def prepare_flush(self, key: TopicPartition) -> Flush | None:
        """The flush of the copy; the caller runs it in a thread and calls the copy's `flushed`."""
        copy = self.copies[key]
        return copy.log.prepare_flush(self._dirs.clock())

    # -- changing places

    def swap(self, key: TopicPartition) -> Log:
        """Replace the log by its complete copy; returns the new log.

        Raises LogError if a folder cannot be renamed: its directory goes offline then.
        """
        dirs, copy = self._dirs, self.copies.pop(key)
        source = dirs.logs[key]
        log = copy.log
        log.update_config(source.config)
        log.producers.verifications = source.producers.verifications
        log.producers.refused = source.producers.refused
        log.increment_log_start_offset(source.log_start_offset)
        log.first_dirty_offset = source.first_dirty_offset
        for epoch, start in source.epochs.entries:
            if epoch > log.epochs.latest_epoch:  # an epoch without records is not copied
                log.assign_epoch(epoch, start)
        log.flush()
        try:
            self._maintenance.make_place(copy.directory, key, log)
        except OSError as error:
            self.copies[key] = copy
            raise self._failed(copy.directory, error) from error
        twin = dirs.retire(key, copy.unique)
        try:
            path = copy.directory.rename_folder(log.dir, log_dir.partition_folder(*key))
        except OSError as error:  # the twin is kept: by it the next start finishes the swap
            dirs.dir_failed(copy.directory, error)
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        moved_to(log, path)
        dirs.adopt(key, log, copy.directory)
        if twin is not None:
            self._maintenance.deleted.append(twin)
        _logger.info("Moved %s-%d to %s", *key, copy.directory.path)
        return log

    def cancel(self, key: TopicPartition) -> None:
        """End a move and remove its copy; does nothing without a move."""
        copy = self.copies.pop(key, None)
        if copy is None:
            return
        try:
            self._remove(key, copy.directory, copy.log.dir, copy.log)
        except OSError as error:
            self._failed(copy.directory, error)

    def _dir_failed(self, directory: LogDir) -> None:
        """Drop the copies in a failed directory."""
        for key in [key for key, copy in self.copies.items() if copy.directory is directory]:
            self.copies.pop(key).log.take_offline()

    # -- opening and closing

    def load(
        self,
        config_for: Callable[[str], LogConfig],
        topic_id_of: Callable[[str], bytes | None],
    ) -> None:
        """Continue the unfinished moves of the last owner; call it after all logs are loaded."""
        for directory in list(self._dirs.online_dirs):
            for name in directory.folders():
                parsed = log_dir.parse_future_folder(name)
                if parsed is None or directory not in self._dirs.online_dirs:
                    continue
                (topic, _), _ = parsed
                try:
                    self._resume(*parsed, directory, config_for(topic), topic_id_of(topic))
                except (OSError, LogError) as error:
                    _logger.error(
                        "Cannot continue the move to %s: %s", directory.path / name, error
                    )
                    if isinstance(error, OSError):
                        self._failed(directory, error)

    def _resume(
        self,
        key: TopicPartition,
        unique: str,
        directory: LogDir,
        config: LogConfig,
        known_id: bytes | None,
    ) -> None:
        """Continue a move that a stop interrupted, from the `-future` folder that it left.

        If the source is gone for good, the copy is served in its place. A copy that does not fit
        its source is removed, and the move begins again if it is still wanted.
        """
        path = directory.path / log_dir.future_folder(*key, unique)
        copy_id = partition_metadata.read_if_whole(self._dirs.files, path)
        source = self._dirs.logs.get(key)
        if source is None:
            if copy_id is not None and copy_id == known_id and not self._dirs.offline_dirs:
                _logger.warning("Serving %s: no other log of its partition exists", path)
                self._serve(key, directory, path, config)
            else:
                _logger.warning("Leaving %s alone: the log that it copies is not loaded", path)
            return
        wanted = (
            copy_id in (None, source.topic_id)
            and source.dir.parent != directory.path
            and key not in self.copies
        )
        copy = None
        if wanted and copy_id is not None:
            copy = self._open(key, directory, path, unique, source)
            if _is_beginning(copy.log, source):
                self.copies[key] = copy
                return
        _logger.warning("Removing %s: the copy does not fit its log", path)
        self._remove(key, directory, path, copy.log if copy is not None else None)
        if wanted:
            self.copies[key] = self._begin(key, source, directory)

    def _serve(self, key: TopicPartition, directory: LogDir, path: Path, config: LogConfig) -> None:
        """Serve the copy as the log of its partition: rename its folder and load it."""
        dirs = self._dirs
        self._maintenance.make_place(directory, key)
        path = directory.rename_folder(path, log_dir.partition_folder(*key))
        log = loader.load(path, *key, config, dirs.settings, now_ms=dirs.clock())
        dirs.adopt(key, log, directory)

    def _remove(self, key: TopicPartition, directory: LogDir, path: Path, log: Log | None) -> None:
        """Rename a copy's folder for removal, as a deleted partition's.  Raises OSError."""
        if log is not None:
            log.take_offline()
            for segment in log.segments:
                segment.discard()
        renamed = directory.rename_folder(path, log_dir.delete_folder(*key))
        deleted = DeletedFolder(renamed, self._dirs.clock())
        self._maintenance.deleted.append(deleted)

    def close(self) -> None:
        """Close the copies' files.  Nothing is flushed: loading a copy always recovers it."""
        for copy in self.copies.values():
            for segment in copy.log.segments:
                segment.discard()
        self.copies.clear()


def _first_offset(source: Log) -> int:
    """The base offset of the first batch: DeleteRecords may set the log start within a batch."""
    start = source.log_start_offset
    batch = source.segments.batch_at(start)
    return start if batch is None else min(start, batch.base_offset)


def moved_to(log: Log, path: Path) -> None:
    """Use the new path of a log's renamed folder."""
    log.storage.move(path)
    log.snapshots.move(path)
    log.epochs.move(path)
    for segment in log.segments:
        segment.move(path)


def _is_beginning(log: Log, source: Log) -> bool:
    """Return whether `source` has all batches of `log`; it has if it has the last one.

    A recovery may have cut the source, and it may have new batches since the copy's disk failed.
    """
    end = log.log_end_offset
    if end > source.log_end_offset:
        return False
    last = log.segments.batch_at(end - 1)
    return last is None or last == source.segments.batch_at(end - 1)


def finish_swap(directories: list[LogDir]) -> None:
    """Do step 2 of interrupted swaps, before any log is loaded."""
    folders = [(directory, name) for directory in directories for name in directory.folders()]
    for directory, name in folders:
        parsed = log_dir.parse_future_folder(name)
        if parsed is None:
            continue
        key, unique = parsed
        twin = log_dir.delete_folder(*key, unique)
        target = log_dir.partition_folder(*key)
        names = {folder for _, folder in folders}
        if twin in names and target not in names:
            _logger.warning("Finishing the interrupted move to %s", directory.path / name)
            directory.rename_folder(directory.path / name, target)
