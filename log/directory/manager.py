"""All logs of a broker: its log directories, opening and closing, creating and deleting."""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.log.config import LogConfig
from kwire.log.directory import identity, log_dir, partition_metadata
from kwire.log.directory.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OF_PARTITIONS,
    RECOVERY_POINTS,
    TopicPartition,
)
from kwire.log.directory.files import Files
from kwire.log.directory.log_dir import NO_BROKER_EPOCH, LogDir
from kwire.log.directory.log_dirs import DeletedFolder, LogDirs
from kwire.log.directory.shortage import passes
from kwire.log.error import LogDirError, LogError, OtherTopic
from kwire.log.log import Log
from kwire.log.producers.state import PRODUCER_ID_EXPIRATION_MS
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery import loader, truncation
from kwire.log.recovery.loader import ZERO_UUID, LogSettings
from kwire.log.upkeep import moving
from kwire.log.upkeep.job import Job
from kwire.log.upkeep.maintenance import Intervals, Maintenance

if TYPE_CHECKING:
    from kwire.log.compaction.cleaner import Cleaner

_logger = logging.getLogger(__name__)


CLOSING_THREADS_MAX = 16
"""They do nothing but wait for the disk; more of them gain nothing.  A log has a handful of files
open for its flush, so that all together need fewer than the connections had that are gone by now.
"""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def open_files_max() -> int:
    """Half of what the process may open; the other half is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(soft, 1 << 20) // 2)


def _log_end_offset(log: Log) -> int:
    return log.log_end_offset


class LogManager:
    """Owns the log directories from construction (which locks them) until `close`.

    `logs`, `online_dirs` and `offline_dirs` are those of `dirs`.  Its `on_dir_offline`, if set,
    hears of each directory that fails once and is given the logs that went with it; they answer
    KAFKA_STORAGE_ERROR from then on.

    Raises LogDirLocked when another broker has a directory, LogDirError when none can be used.
    """

    def __init__(
        self,
        log_dirs: Sequence[Path | str],
        *,
        defaults: LogConfig,
        intervals: Intervals | None = None,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        verify_transactions: bool = True,
        clock: Callable[[], int] = wall_clock_ms,
        files: Files | None = None,
        closing_threads_max: int = CLOSING_THREADS_MAX,
    ) -> None:
        self.closing_threads_max = closing_threads_max
        self.defaults = defaults
        self.clock = clock
        self.files = files or Files()
        settings = LogSettings(
            self.files,
            OpenFiles(open_files_max()),
            producer_id_expiration_ms,
            verify_transactions,
        )
        self.dirs = LogDirs(settings, clock)
        self.logs, self.high_watermarks = self.dirs.logs, self.dirs.high_watermarks
        self.online_dirs, self.offline_dirs = self.dirs.online_dirs, self.dirs.offline_dirs
        self._loaded: set[LogDir] = set()
        self.broker_epoch = NO_BROKER_EPOCH
        """Of the KRaft registration that a clean stop is the end of; Apache Kafka compares it."""
        self.maintenance = Maintenance(self.dirs, intervals or Intervals(), clock())
        self.moves = moving.Moves(self.dirs, self.maintenance)
        self.dirs.open([Path(path) for path in log_dirs])

    # Identity

    def identify(
        self,
        node_id: int,
        cluster_id: str,
        *,
        remembered: str | None = None,
        zookeeper: bool = False,
    ) -> str:
        """Check `meta.properties` of all directories, or write it; see `identity.settle`."""
        return identity.settle(
            self.online_dirs, node_id, cluster_id, remembered=remembered, zookeeper=zookeeper
        )

    def update_producers(self, *, expiration_ms: int, verify_transactions: bool) -> None:
        """Take over altered settings of producers, in all logs that there are and will be."""
        self.dirs.settings = replace(
            self.dirs.settings,
            producer_id_expiration_ms=expiration_ms,
            verify_transactions=verify_transactions,
        )
        for log in self.logs.values():
            log.producers.expiration_ms = expiration_ms
            log.producers.verify_transactions = verify_transactions

    # Opening

    def load(
        self,
        config_for: Callable[[str], LogConfig] | None = None,
        topic_id_of: Callable[[str], bytes | None] | None = None,
    ) -> None:
        """Open all logs; recovers them where the last owner did not stop cleanly.

        `config_for` gives a topic's configs, `topic_id_of` its id, None if there is no such topic:
        a folder of another one is set aside.  Leave it out where nobody knows.  Blocks; may run in
        a thread, as long as nothing else uses the manager meanwhile.  LogDirError if two folders
        claim the same partition, or if no directory is left: the disk may be too full.
        """
        find_config = cache(config_for or (lambda topic: self.defaults))  # one object a topic
        moving.finish_swap(self.online_dirs)
        for directory in list(self.online_dirs):
            try:
                self._load_dir(directory, find_config, topic_id_of)
            except OSError as error:
                self.dirs.dir_failed(directory, error)
            else:
                self._loaded.add(directory)
        self.moves.load(find_config, topic_id_of or (lambda topic: None))
        self.dirs.check_online()

    def _load_dir(
        self,
        directory: LogDir,
        config_for: Callable[[str], LogConfig],
        topic_id_of: Callable[[str], bytes | None] | None,
    ) -> None:
        clean = directory.take_clean_shutdown()
        lines = {name: directory.read_checkpoint(name) for name in OF_PARTITIONS}
        for name in directory.folders():
            path = directory.path / name
            key = self._partition_in(path)
            if key is None:
                continue
            known_id = None if topic_id_of is None else topic_id_of(key[0])
            try:
                if topic_id_of is not None and known_id is None and key in self.logs:
                    raise OtherTopic("there is no such topic, and another folder of that name")
                recovery_point = lines[RECOVERY_POINTS].get(key, 0)
                self._check_single(key, path, known_id, recovery_point)
                log = loader.load(
                    path,
                    *key,
                    config_for(key[0]),
                    self.dirs.settings,
                    now_ms=self.clock(),
                    known_id=known_id,
                    clean=clean,
                    recovery_point=recovery_point,
                    log_start_offset=lines[LOG_START_OFFSETS].get(key, 0),
                )
            except OtherTopic as why:
                self._set_aside(directory, path, key, why)
            else:
                log.first_dirty_offset = lines[CLEANER_OFFSETS].get(key)
                self.dirs.adopt(key, log, directory)
        here = {(log.topic, log.partition) for log in self.dirs.logs_in(directory)}
        self.high_watermarks |= {
            key: offset for key, offset in lines[HIGH_WATERMARKS].items() if key in here
        }
        for name, found in lines.items():
            for key in found.keys() - here:
                directory.departed(key, [name])

    def _partition_in(self, path: Path) -> TopicPartition | None:
        """Which partition a folder is to be opened as, if any."""
        name = path.name
        if name.endswith(log_dir.DELETE_SUFFIX):
            due_ms = self.clock() + self.defaults.file_delete_delay_ms
            self.maintenance.deleted.append(DeletedFolder(path, due_ms))
            return None
        if log_dir.parse_future_folder(name) is not None:
            return None  # `moves` goes on with it
        key = log_dir.parse_partition_folder(name)
        if key is None:
            _logger.warning("%s is not a partition's folder; leaving it alone", path)
        return key

    def _check_single(
        self, key: TopicPartition, path: Path, known_id: bytes | None, recovery_point: int
    ) -> None:
        """There may be another folder of that name, of a topic deleted while its disk was away.

        OtherTopic if the one at `path` is of that; LogDirError if nobody knows which one is.
        """
        first = self.logs.get(key)
        if first is None:
            return
        found_id = partition_metadata.read_if_whole(self.files, path)
        if known_id is not None:
            if found_id not in (None, known_id):
                raise OtherTopic("by its topic id")
            if found_id is None and first.topic_id == known_id:
                raise OtherTopic(f"the topic's partition is in {first.dir}")
            if found_id == known_id and first.topic_id == ZERO_UUID:
                self.set_aside(key)
                return
            if found_id is None and not recovery_point and not first.recovery_point:
                self.set_aside(key)
                raise OtherTopic("nothing of it was on disk before the power went")
        raise LogDirError(
            f"partition {path.name} is in {first.dir} and in {path}: remove the copy "
            "in the directory that failed last"
        )

    def _set_aside(
        self, directory: LogDir, path: Path, key: TopicPartition, why: Exception | str
    ) -> None:
        """Give a folder a name under which it is never served, nor removed.  OSError."""
        aside = directory.rename_folder(path, log_dir.stray_folder(*key))
        _logger.warning("%s is %s from now on, and kept: %s", path, aside.name, why)

    def topics_found(self) -> set[str]:
        """Topics that have a folder; before anything is loaded."""
        found = (self._folders_of(directory) for directory in self.online_dirs)
        keys = (log_dir.parse_partition_folder(name) for names in found for name in names)
        return {key[0] for key in keys if key is not None}

    @staticmethod
    def _folders_of(directory: LogDir) -> list[str]:
        try:
            return list(directory.folders())
        except OSError:
            return []  # loading it finds that out, too, and tells

    def compacted_topics(self) -> set[str]:
        """Topics that the cleaner has been at, by its checkpoints; before anything is loaded."""
        found = (directory.read_checkpoint(CLEANER_OFFSETS) for directory in self.online_dirs)
        return {topic for offsets in found for topic, _ in offsets}

    # Creating and deleting

    def create(
        self, topic: str, topic_id: bytes, partition: int, config: LogConfig | None = None
    ) -> Log:
        """The log of a new partition, in the directory that has the fewest.

        KAFKA_STORAGE_ERROR if no directory can take it, or not now.
        """
        key = topic, partition
        assert key not in self.logs, f"{topic}-{partition} is there already"
        while self.online_dirs:
            directory = self.dirs.emptiest()
            try:
                path = self._make_place(directory, key, topic_id)
                log = loader.load(
                    path,
                    topic,
                    partition,
                    config or self.defaults,
                    self.dirs.settings,
                    now_ms=self.clock(),
                    topic_id=topic_id,
                )
            except OSError as error:
                if passes(error):  # what is there of it is loaded the next time
                    raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                self.dirs.dir_failed(directory, error)
                continue
            self.dirs.adopt(key, log, directory)
            return log
        raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, "all log directories are offline")

    def _make_place(self, directory: LogDir, key: TopicPartition, topic_id: bytes) -> Path:
        """The folder of a new log, and nothing that speaks of another of that name.  OSError."""
        self.maintenance.make_place(directory, key)
        path = directory.path / log_dir.partition_folder(*key)
        if path.exists() and partition_metadata.read(self.files, path) not in (None, topic_id):
            self._set_aside(directory, path, key, "it is of another topic of that name")
        return directory.make_folder(path.name)

    def set_aside(self, key: TopicPartition) -> None:
        """A log that is no partition's is not served, and its folder kept under another name."""
        log, directory = self.dirs.take_out(key)
        try:
            self._set_aside(directory, log.dir, key, "it is of another topic of that name")
        except OSError as error:
            self.dirs.dir_failed(directory, error)

    def delete(self, topic: str, partition: int) -> None:
        """Take a partition's log away: its folder is renamed now and removed later."""
        self.moves.cancel((topic, partition))
        folder = self.dirs.retire((topic, partition))
        if folder is not None:
            self.maintenance.deleted.append(folder)

    def truncate(self, offsets: Mapping[TopicPartition, int], now_ms: int) -> Iterator[Job]:
        """Cut logs to these ends: a follower's must not hold what its leader does not.

        Run each job in a thread, finish it here, then ask for the next; append nothing to these
        logs before the last.  LogError if a disk refuses.  See `truncation.jobs`.
        """
        found = [(self.logs[key], offset) for key, offset in offsets.items()]
        return truncation.jobs(found, self.maintenance, now_ms)

    # Running

    def maintain(
        self, now_ms: int, high_watermark_of: Callable[[Log], int] = _log_end_offset
    ) -> list[Job]:
        """Retention, removals, flushes and checkpoints that are due at `now_ms`.

        What cannot block is done at once.  Run each job in a thread, then `finish` it here; or
        all of them with `job.run_all` where nothing waits.
        """
        return self.maintenance.due(now_ms, high_watermark_of)

    @cached_property
    def cleaner(self) -> Cleaner:
        """What compacts logs; imported when a log is first to be compacted."""
        from kwire.log.compaction.cleaner import Cleaner

        return Cleaner(self.dirs, self.maintenance)

    def stop_cleaning(self) -> None:
        """End the cleaner's workers, if there are any."""
        if "cleaner" in self.__dict__:
            self.cleaner.stop()

    # Closing

    def close(self, high_watermark_of: Callable[[Log], int] = _log_end_offset) -> None:
        """A clean stop: all logs durable, checkpoints written, directories marked and unlocked.

        A directory that was not loaded to the end is left as it is: nobody can vouch for it.
        """
        self.stop_cleaning()
        self.maintenance.high_watermark_of = high_watermark_of
        self.moves.close()
        for directory in [each for each in self.online_dirs if each in self._loaded]:
            try:
                self._close_dir(directory)
            except OSError as error:
                self.dirs.dir_failed(directory, error)
            except LogError as error:  # the directory went offline in the middle
                _logger.error("%s could not be stopped cleanly: %s", directory.path, error)
        self.dirs.unlock()

    def _close_dir(self, directory: LogDir) -> None:
        from kwire.log.upkeep import closing

        closing.close_all(self.dirs.logs_in(directory), self.closing_threads_max)
        self.files.fsync_dir(directory.path)
        for name in OF_PARTITIONS:
            directory.write_checkpoint(name, self.maintenance.lines(directory, name))
        directory.mark_clean_shutdown(self.broker_epoch)
