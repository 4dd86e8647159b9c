"""Moving partitions between log directories while they are written to (KIP-113).

The copy grows in a folder of its own in the target directory, `<topic>-<partition>.<hex>-future`,
as a follower of the log that is served.  Once it has everything, durably, the two change places:

1. the folder that was served so far becomes `<topic>-<partition>.<hex>-delete`, with the same hex;
2. the copy's folder becomes `<topic>-<partition>`.

A broker that dies in between finds a copy whose twin is to be deleted, and goes on with step 2.
One that dies before finds the copy, and goes on copying.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.log.directory import log_dir
from kwire.log.directory.shortage import passes
from kwire.log.error import LogDirError, LogError
from kwire.log.recovery import loader
from kwire.log.upkeep.maintenance import DeletedFolder

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.log.directory.log_dir import LogDir
    from kwire.log.directory.manager import LogManager
    from kwire.log.log import Log
    from kwire.log.upkeep.flush import Flush

_logger = logging.getLogger(__name__)

COPY_BYTES = 1 << 20
"""Copied at once on the loop: a few milliseconds."""


@dataclass(slots=True)
class Copy:
    """One partition on its way to `directory`."""

    log: Log
    directory: LogDir
    unique: str
    source_generation: int = 0


class Moves:
    """The copies of a LogManager, by (topic, partition)."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self.copies: dict[TopicPartition, Copy] = {}

    # -- asking for a move

    def move(self, key: TopicPartition, path: str) -> None:
        """Have a partition's log move to the log directory at `path`; nothing if it is there.

        A move to somewhere else that is under way ends.  LogError if it cannot begin:
        LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE.
        """
        target = self.directory_at(path)
        source = self._manager.logs.get(key)
        if source is None:
            raise LogError(ErrorCode.REPLICA_NOT_AVAILABLE)
        source.check_online()
        if (known := self.copies.get(key)) is not None:
            if known.directory is target:
                return
            self.cancel(key)
        if source.dir.parent != target.path:
            self.copies[key] = self._begin(key, source, target)

    def directory_at(self, path: str) -> LogDir:
        """The online log directory of that absolute path, letter by letter; LogError otherwise."""
        for directory in self._manager.online_dirs:
            if str(directory.path.absolute()) == path:
                return directory
        offline = any(str(each.absolute()) == path for each in self._manager.offline_dirs)
        raise LogError(ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.LOG_DIR_NOT_FOUND)

    def _begin(self, key: TopicPartition, source: Log, target: LogDir) -> Copy:
        unique = log_dir.new_unique()
        name = log_dir.future_folder(*key, unique)
        if len(name.encode()) > log_dir.NAME_BYTES_MAX:
            raise LogError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is too long for a folder")
        try:
            copy = self._open(key, target, target.make_folder(name), unique, source)
        except OSError as error:
            raise self._failed(target, error) from error
        if source.log_start_offset:
            copy.log.truncate_fully_and_start_at(source.log_start_offset, self._manager.clock())
        return copy

    def _open(
        self, key: TopicPartition, directory: LogDir, path: Path, unique: str, source: Log
    ) -> Copy:
        log = loader.load(
            path,
            *key,
            source.config,
            self._manager.settings,
            now_ms=self._manager.clock(),
            topic_id=source.topic_id,
        )
        log.on_storage_failure = lambda error: self._manager.dir_failed(directory, error)
        return Copy(log, directory, unique, source.generation)

    def _failed(self, directory: LogDir, error: OSError) -> LogError:
        if not passes(error):
            self._manager.dir_failed(directory, error)
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    # -- copying

    def offset_lag(self, key: TopicPartition) -> int:
        """How far the copy is behind the log that is served."""
        source = self._manager.logs.get(key)
        end = self.copies[key].log.log_end_offset
        return 0 if source is None else max(0, source.log_end_offset - end)

    def copy_some(self, key: TopicPartition) -> bool:
        """Copy up to COPY_BYTES more; False if there is nothing more to copy.

        LogError if one of the disks refuses; the move ends then where it was the copy's.
        """
        source, copy = self._manager.logs[key], self.copies[key]
        if copy.source_generation != source.generation:  # it was cut: what is there may be wrong
            copy.source_generation = source.generation
            start = source.log_start_offset
            copy.log.truncate_fully_and_start_at(start, self._manager.clock())
        if copy.log.log_end_offset < source.log_start_offset:  # deleted meanwhile
            start = source.log_start_offset
            copy.log.truncate_fully_and_start_at(start, self._manager.clock())
        at, end = copy.log.log_end_offset, source.log_end_offset
        if at >= end:
            return False
        region = source.read(at, COPY_BYTES, max_offset=end, min_one_batch=True)
        if region is None:
            return False
        epoch = source.epochs.latest_epoch
        copy.log.append_as_follower(
            bytearray(region.read()), leader_epoch=epoch, now_ms=self._manager.clock()
        )
        return copy.log.log_end_offset > at

    def prepare_flush(self, key: TopicPartition) -> Flush | None:
        """What makes the copy durable, to be run in a thread; give it to `flushed` then."""
        copy = self.copies[key]
        return copy.log.prepare_flush(self._manager.clock())

    # -- changing places

    def swap(self, key: TopicPartition) -> Log:
        """Put the copy, which has everything, in the place of the log; gives the new log.

        LogError if a folder cannot be renamed: its directory is offline then.
        """
        manager, copy = self._manager, self.copies.pop(key)
        source = manager.logs[key]
        log = copy.log
        log.update_config(source.config)
        log.producers.verifications = source.producers.verifications
        log.increment_log_start_offset(source.log_start_offset)
        log.first_dirty_offset = source.first_dirty_offset
        for epoch, start in source.epochs.entries:
            if epoch > log.epochs.latest_epoch:  # began without a record
                log.assign_epoch(epoch, start)
        log.flush()
        manager.retire(key, copy.unique)
        try:
            path = copy.directory.rename_folder(log.dir, log_dir.partition_folder(*key))
        except OSError as error:
            raise self._failed(copy.directory, error) from error
        log.moved_to(path)
        manager.adopt(key, log, copy.directory)
        _logger.info("%s-%d is in %s from now on", *key, copy.directory.path)
        return log

    def cancel(self, key: TopicPartition) -> None:
        """The move ends, or the partition is deleted: the copy goes away."""
        copy = self.copies.pop(key, None)
        if copy is None:
            return
        copy.log.take_offline()
        for segment in copy.log.segments:
            segment.discard()
        name = log_dir.delete_folder(*key, copy.unique)
        try:
            path = copy.directory.rename_folder(copy.log.dir, name)
        except OSError as error:
            self._failed(copy.directory, error)
            return
        deleted = DeletedFolder(copy.directory, path, self._manager.clock())
        self._manager.maintenance.deleted.append(deleted)

    def dir_failed(self, directory: LogDir) -> None:
        """The copies in a directory that failed are lost."""
        for key in [key for key, copy in self.copies.items() if copy.directory is directory]:
            self.copies.pop(key).log.take_offline()

    # -- opening and closing

    def load(self) -> None:
        """Go on with the moves that the last owner left, once all logs are open."""
        for directory in list(self._manager.online_dirs):
            for name in directory.folders():
                if (parsed := log_dir.parse_future_folder(name)) is not None:
                    self._resume(*parsed, directory, directory.path / name)

    def _resume(self, key: TopicPartition, unique: str, directory: LogDir, path: Path) -> None:
        source = self._manager.logs.get(key)
        if source is None:
            _logger.warning("%s is left alone: what it is a copy of is not here", path)
            return
        if source.dir.parent == directory.path or key in self.copies:
            _logger.warning("%s is a copy that nobody needs; removing it", path)
            gone = directory.rename_folder(path, log_dir.delete_folder(*key, unique))
            deleted = DeletedFolder(directory, gone, self._manager.clock())
            self._manager.maintenance.deleted.append(deleted)
            return
        try:
            self.copies[key] = self._open(key, directory, path, unique, source)
        except LogDirError as error:
            _logger.error("%s cannot be gone on with: %s", path, error)

    def close(self) -> None:
        """Stop cleanly or not, a copy is recovered when it is opened again."""
        for copy in self.copies.values():
            for segment in copy.log.segments:
                segment.discard()
        self.copies.clear()


def finish_swap(directories: list[LogDir]) -> None:
    """Step 2 of a swap that was broken off, before anything is loaded."""
    folders = [(directory, name) for directory in directories for name in directory.folders()]
    for directory, name in folders:
        parsed = log_dir.parse_future_folder(name)
        if parsed is None:
            continue
        key, unique = parsed
        twin = log_dir.delete_folder(*key, unique)
        target = log_dir.partition_folder(*key)
        names = {each for _, each in folders}
        if twin in names and target not in names:
            _logger.warning("%s takes the place it was made for", directory.path / name)
            directory.rename_folder(directory.path / name, target)
