"""The log directories of a broker: those that are online, those that failed, and their logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.log.directory import log_dir
from kwire.log.directory.log_dir import LogDir
from kwire.log.error import LogDirError

if TYPE_CHECKING:
    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.log.directory.files import Files
    from kwire.log.log import Log
    from kwire.log.recovery.loader import SharedLogSettings

_logger = logging.getLogger(__name__)

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class DeletedFolder:
    """A deleted partition's folder, to be removed at `due_ms`."""

    path: Path
    due_ms: int


class LogDirs:
    """The log directories and their logs.

    logs           the logs that are served, by (topic, partition)
    online_dirs    the directories that work
    offline_dirs   the error of each directory that failed, by its path
    """

    def __init__(self, settings: SharedLogSettings, clock: Callable[[], int]) -> None:
        """Begin without directories; `open` adds them. `clock` returns the time in ms."""
        self.settings = settings
        self.clock = clock
        self.logs: dict[TopicPartition, Log] = {}
        self._logs_in: dict[LogDir, dict[TopicPartition, Log]] = {}
        self.changed: dict[Log, None] = {}
        """The logs that were appended to, truncated, rolled, flushed or got other configs since the
        last round of `Maintenance`, as an ordered set.  Each such change adds the log."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The content of `replication-offset-checkpoint` when the logs were loaded."""
        self.online_dirs: list[LogDir] = []
        self.offline_dirs: dict[Path, OSError] = {}
        self.when_failed: Callable[[LogDir], None] | None = None
        """Called with a failed directory before its logs go offline: moves into it end."""
        self.on_dir_offline: Callable[[Path, OSError, list[Log]], None] | None = None
        self._cordoned: Collection[str] = ()
        self.on_gone: Callable[[TopicPartition], None] | None = None
        """Called with each log that is no longer served: a new log may get its name."""

    @property
    def files(self) -> Files:
        return self.settings.files

    def open(self, paths: list[Path]) -> None:
        """Lock the directories.  Raises LogDirLocked; LogDirError if none can be used."""
        log_dir.check_distinct(paths)
        try:
            for path in paths:
                directory = LogDir(path, self.files)
                try:
                    directory.open()
                except OSError as error:
                    _logger.error("Cannot use log directory %s: %s", path, error)
                    self.offline_dirs[path] = error
                else:
                    self.online_dirs.append(directory)
            self.check_online()
        except BaseException:
            self.unlock()
            raise

    def check_online(self) -> None:
        """Raise LogDirError if no directory is online."""
        if not self.online_dirs:
            reasons = "; ".join(f"{path}: {error}" for path, error in self.offline_dirs.items())
            raise LogDirError(f"none of the log.dirs can be used: {reasons}")

    def unlock(self) -> None:
        for directory in self.online_dirs:
            directory.unlock()

    def cordon(self, names: Collection[str]) -> None:
        """Put no new logs into the directories with these paths; `*` stands for all (KIP-1066)."""
        self._cordoned = names

    def is_cordoned(self, directory: LogDir) -> bool:
        """Whether a directory gets no new logs."""
        return ALL in self._cordoned or directory.path in map(Path, self._cordoned)

    def emptiest(self) -> LogDir:
        """The online directory with the fewest logs that is not cordoned.

        If all are cordoned, it is one of all: the log belongs to a partition that was placed before
        the controller knew, or whose log has to be made again.
        """
        usable = [each for each in self.online_dirs if not self.is_cordoned(each)]
        candidates = usable or self.online_dirs
        return min(candidates, key=lambda directory: len(self._logs_in.get(directory, {})))

    def logs_in(self, directory: LogDir) -> list[Log]:
        return list(self._logs_in.get(directory, {}).values())

    def adopt(self, key: TopicPartition, log: Log, directory: LogDir) -> None:
        """Serve a loaded log of `directory`."""

        def failed(error: OSError) -> None:
            self.dir_failed(directory, error)

        log.on_storage_failure = failed
        log.upkeep = self.changed
        log.upkeep[log] = None
        self.logs[key] = log
        self._logs_in.setdefault(directory, {})[key] = log

    def retire(
        self, key: TopicPartition, unique: str | None = None, *, durable: bool = True
    ) -> DeletedFolder | None:
        """Stop serving a log and rename its folder for deletion; `unique` is part of the new name.

        Unless `durable`, the caller makes the new name durable later, by `LogDir.sync_names`.
        Returns the folder, for `maintenance.deleted`; None if its directory has failed.
        """
        log, directory = self.take_out(key)
        name = log_dir.delete_folder(*key, unique)
        try:
            path = directory.rename_folder(log.dir, name, durable=durable)
        except OSError as error:
            self.dir_failed(directory, error)
            return None
        due_ms = self.clock() + log.config.file_delete_delay_ms
        return DeletedFolder(path, due_ms)

    def take_out(self, key: TopicPartition) -> tuple[Log, LogDir]:
        """Stop serving a log; returns it with its directory."""
        log = self.logs.pop(key)
        directory = next(online for online in self.online_dirs if online.path == log.dir.parent)
        del self._logs_in[directory][key]
        log.on_storage_failure = None  # a late read finds no files, which is no disk failure
        log.take_offline()
        self.high_watermarks.pop(key, None)
        directory.departed(key)
        if self.on_gone is not None:
            self.on_gone(key)
        for segment in log.segments:
            segment.discard()
        return log, directory

    def dir_failed(self, directory: LogDir, error: OSError) -> None:
        """Take a directory and its logs offline after a disk failure."""
        if directory not in self.online_dirs:
            return
        _logger.error("log directory %s goes offline: %s", directory.path, error)
        self.online_dirs.remove(directory)
        self.offline_dirs[directory.path] = error
        if self.when_failed is not None:
            self.when_failed(directory)
        lost = self.logs_in(directory)
        self._logs_in.pop(directory, None)
        for log in lost:
            log.take_offline()
            del self.logs[log.topic, log.partition]
        directory.unlock()
        if self.on_dir_offline is not None:
            self.on_dir_offline(directory.path, error, lost)
