"""All logs of a broker: loads them from the log directories, creates, deletes and closes them."""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.log.config import LogConfig
from kwire.log.directory import identity, loading, log_dir, partition_metadata
from kwire.log.directory.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OF_PARTITIONS,
    RECOVERY_POINTS,
    TopicPartition,
)
from kwire.log.directory.files import Files
from kwire.log.directory.loading import FoundLog
from kwire.log.directory.log_dir import NO_BROKER_EPOCH, LogDir
from kwire.log.directory.log_dirs import DeletedFolder, LogDirs
from kwire.log.directory.shortage import passes
from kwire.log.error import LogDirError, LogError, OtherTopic
from kwire.log.log import Log
from kwire.log.producers.state import PRODUCER_ID_EXPIRATION_MS
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery import loader, truncation
from kwire.log.recovery.loader import ZERO_UUID, SharedLogSettings
from kwire.log.upkeep import moving
from kwire.log.upkeep.job import Job
from kwire.log.upkeep.maintenance import Intervals, Maintenance

if TYPE_CHECKING:
    from kwire.log.compaction.cleaner import Cleaner

_logger = logging.getLogger(__name__)


CLOSING_THREADS_MAX = 16
"""The most threads that close logs.  They only wait for the disk, so more threads gain nothing.
Each has a few files open for a flush: together fewer descriptors than the closed connections had.
"""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def open_files_max() -> int:
    """The most files that logs keep open: half of the limit; the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # 2^20 bounds a limit that is set very high.
    return max(64, min(soft, 1 << 20) // 2)


def _log_end_offset(log: Log) -> int:
    return log.log_end_offset


class LogManager:
    """Owns the log directories from its construction, which locks them, until `close`.

    `logs`, `online_dirs` and `offline_dirs` are those of `dirs`.  If a directory fails,
    `dirs.on_dir_offline` is called once with its logs; they refuse requests with
    KAFKA_STORAGE_ERROR from then on.

    Raises LogDirLocked if another process has a directory, LogDirError if none can be used.
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
        recovery_threads: int = 1,
    ) -> None:
        """Lock and open the log directories; `load` then loads their logs.

        `defaults` are the configs of a log whose topic sets none. `intervals` are those of the
        background work. `recovery_threads` recover logs at the same time, after an unclean stop.
        """
        self.closing_threads_max = closing_threads_max
        self.recovery_threads = recovery_threads
        self.defaults = defaults
        self.clock = clock
        self.files = files or Files()
        settings = SharedLogSettings(
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
        """The broker epoch of the KRaft registration, which the marker of a clean stop has: Apache
        Kafka compares it."""
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
        """Check or write `meta.properties` in all directories; returns the cluster id.

        See `identity.settle`.
        """
        return identity.settle(
            self.online_dirs, node_id, cluster_id, remembered=remembered, zookeeper=zookeeper
        )

    @property
    def known_cluster_id(self) -> str | None:
        """The cluster id in the `meta.properties` of the directories; None if none has one.

        Raises LogDirError if one cannot be parsed.
        """
        for directory in self.online_dirs:
            known = directory.identity()
            if known is not None and known.cluster_id is not None:
                return known.cluster_id
        return None

    @property
    def last_broker_epoch(self) -> int:
        """The broker epoch before the last stop, if that was clean in all directories; else -1.

        Call it before `load`, which removes the markers.
        """
        if self.offline_dirs:
            return NO_BROKER_EPOCH
        epochs = {directory.clean_shutdown_epoch() for directory in self.online_dirs}
        return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH

    def update_producers(self, *, expiration_ms: int, verify_transactions: bool) -> None:
        """Use changed settings of producers, in existing and future logs."""
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
        """Load all logs; recover those of a directory that was not closed cleanly.

        `config_for` returns a topic's configs, and `topic_id_of` its id or None for an unknown
        topic: a folder of another topic id is then set aside.  Without `topic_id_of` every folder
        is loaded.

        It blocks.  A thread may call it if nothing else uses the manager meanwhile.  Raises
        LogDirError if two folders are of the same partition, or if no directory is left (a full
        disk is one reason).
        """
        find_config = cache(config_for or (lambda topic: self.defaults))  # one object per topic
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
        """Load each log of one directory, and take over its checkpoints.

        `topic_id_of` returns the id of a topic, None if the topic does not exist; it is None itself
        if ids are not known. A folder of another topic with the same name is set aside. Checkpoint
        lines of partitions without a folder are dropped. Raises OSError.
        """
        clean = directory.take_clean_shutdown()
        lines = {name: directory.read_checkpoint(name) for name in OF_PARTITIONS}
        partitions = self._partitions_in(directory)

        def folders() -> Iterator[FoundLog]:
            for key, path in partitions:
                known_id = None if topic_id_of is None else topic_id_of(key[0])
                recovery_point = lines[RECOVERY_POINTS].get(key, 0)
                try:
                    if topic_id_of is not None and known_id is None and key in self.logs:
                        reason = "the topic does not exist, and another folder has its name"
                        raise OtherTopic(reason)
                    self._check_single(key, path, known_id, recovery_point)
                except OtherTopic as why:
                    self._set_aside(directory, path, key, why)
                    continue
                load = partial(
                    loader.load,
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
                yield FoundLog(key, path, load)

        # Two folders of one partition are decided between one after the other.
        single = len({key for key, _ in partitions}) == len(partitions)
        threads = self.recovery_threads if single and not clean else 1
        for (key, path, _), log in loading.loaded(folders(), threads):
            if isinstance(log, OtherTopic):
                self._set_aside(directory, path, key, log)
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

    def _partitions_in(self, directory: LogDir) -> list[tuple[TopicPartition, Path]]:
        """Return the partitions whose logs a directory has, with their folders."""
        paths = (directory.path / name for name in directory.folders())
        return [(key, path) for path in paths if (key := self._partition_in(path)) is not None]

    def _partition_in(self, path: Path) -> TopicPartition | None:
        """Return the partition whose log a folder has; None for other folders."""
        name = path.name
        if name.endswith(log_dir.DELETE_SUFFIX):
            due_ms = self.clock() + self.defaults.file_delete_delay_ms
            self.maintenance.deleted.append(DeletedFolder(path, due_ms))
            return None
        if log_dir.parse_future_folder(name) is not None:
            return None  # `moves.load` continues such a copy
        key = log_dir.parse_partition_folder(name)
        if key is None:
            _logger.warning("%s is not a partition's folder; leaving it alone", path)
        return key

    def _check_single(
        self, key: TopicPartition, path: Path, known_id: bytes | None, recovery_point: int
    ) -> None:
        """Decide between two folders of one partition.

        One of them may be of a topic that was deleted while its log directory was offline.  Raises
        OtherTopic if that is the one at `path`, LogDirError if it is not known which one it is.
        """
        first = self.logs.get(key)
        if first is None:
            return
        folder_id = partition_metadata.read_if_whole(self.files, path)
        if known_id is not None:
            if folder_id not in (None, known_id):
                raise OtherTopic("by its topic id")
            if folder_id is None and first.topic_id == known_id:
                raise OtherTopic(f"the topic's partition is in {first.dir}")
            if folder_id == known_id and first.topic_id == ZERO_UUID:
                self.set_aside(key)
                return
            if folder_id is None and not recovery_point and not first.recovery_point:
                self.set_aside(key)
                raise OtherTopic("no record of it was on disk before the power failed")
        raise LogDirError(
            f"partition {path.name} is in {first.dir} and in {path}: remove the copy "
            "in the directory that failed last"
        )

    def _set_aside(
        self, directory: LogDir, path: Path, key: TopicPartition, reason: Exception | str
    ) -> None:
        """Rename a folder so that it is neither served nor removed.  Raises OSError."""
        stray = directory.rename_folder(path, log_dir.stray_folder(*key))
        _logger.warning("Renamed %s to %s, and kept it: %s", path, stray.name, reason)

    def topics_found(self) -> set[str]:
        """The topics that have a folder, before any log is loaded."""
        folders = (self._folders_of(directory) for directory in self.online_dirs)
        keys = (log_dir.parse_partition_folder(name) for names in folders for name in names)
        return {key[0] for key in keys if key is not None}

    @staticmethod
    def _folders_of(directory: LogDir) -> list[str]:
        try:
            return list(directory.folders())
        except OSError:
            return []  # `load` gets the same error, and takes the directory offline

    def compacted_topics(self) -> set[str]:
        """The topics in the cleaner's checkpoints, before any log is loaded."""
        lines = (directory.read_checkpoint(CLEANER_OFFSETS) for directory in self.online_dirs)
        return {topic for offsets in lines for topic, _ in offsets}

    # Creating and deleting

    def create(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        config: LogConfig | None = None,
        target: LogDir | None = None,
    ) -> Log:
        """Create the log of a new partition, in `target` or in the directory with the fewest logs.

        Raises LogError KAFKA_STORAGE_ERROR if no directory is usable, or the disk is full.
        """
        key = topic, partition
        assert key not in self.logs, f"{topic}-{partition} exists already"
        while self.online_dirs:
            directory = target or self.dirs.emptiest()
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
                if passes(error):  # a later call loads the files that were created
                    raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                self.dirs.dir_failed(directory, error)
                if target is not None:
                    raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                continue
            self.dirs.adopt(key, log, directory)
            return log
        raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, "all log directories are offline")

    def _make_place(self, directory: LogDir, key: TopicPartition, topic_id: bytes) -> Path:
        """Make the folder of a new log; set aside an old one of that name.  Raises OSError."""
        self.maintenance.make_place(directory, key)
        path = directory.path / log_dir.partition_folder(*key)
        if path.exists() and partition_metadata.read(self.files, path) not in (None, topic_id):
            self._set_aside(directory, path, key, "it belongs to another topic of that name")
        return directory.make_folder(path.name)

    def set_aside(
        self, key: TopicPartition, reason: str = "it belongs to another topic of that name"
    ) -> None:
        """Stop serving a log that the metadata do not have, and keep its folder as a stray."""
        self.moves.cancel(key)
        log, directory = self.dirs.take_out(key)
        try:
            self._set_aside(directory, log.dir, key, reason)
        except OSError as error:
            self.dirs.dir_failed(directory, error)

    def directory_ids(self) -> dict[Path, bytes]:
        """Return the id that `meta.properties` gives each online directory, if it gives one.

        Raises OSError, LogDirError.
        """
        known = ((each.path, each.id) for each in self.online_dirs)
        return {path: directory_id for path, directory_id in known if directory_id is not None}

    def delete(self, topic: str, partition: int) -> None:
        """Delete a partition's log: its folder is renamed now and removed later.

        The next round of `maintain` makes the new name durable, for all partitions of a topic at
        once.  If the power fails before, a folder is there again that the metadata do not have.  It
        is not served, and it is set aside when a topic gets that name: its topic id is another.
        """
        self.moves.cancel((topic, partition))
        folder = self.dirs.retire((topic, partition), durable=False)
        if folder is not None:
            self.maintenance.deleted.append(folder)
            self.maintenance.renamed_in.add(folder.path.parent)

    def truncate(self, offsets: Mapping[TopicPartition, int], now_ms: int) -> Iterator[Job]:
        """Truncate followers' logs to these log end offsets.

        The caller runs each job in a thread and finishes it on the loop before it asks for the
        next.  It appends nothing to these logs before the last job.  Raises LogError.  See
        `truncation.jobs`.
        """
        logs = [(self.logs[key], offset) for key, offset in offsets.items()]
        return truncation.jobs(logs, self.maintenance, now_ms)

    # Running

    def maintain(
        self, now_ms: int, high_watermark_of: Callable[[Log], int] = _log_end_offset
    ) -> list[Job]:
        """Return jobs for the removals, flushes and checkpoints that are due at `now_ms`.

        Steps that cannot block are done at once.  The caller runs each job in a thread, and then
        calls its `finish` on the loop; `job.run_all` does both without a thread.
        """
        return self.maintenance.due(now_ms, high_watermark_of)

    @cached_property
    def cleaner(self) -> Cleaner:
        """The log cleaner; it is imported when the first log is compacted."""
        from kwire.log.compaction.cleaner import Cleaner

        return Cleaner(self.dirs, self.maintenance)

    def uncleanable_dirs(self) -> Iterator[Path]:
        """Yield the directory of each log that the cleaner has given up on."""
        if "cleaner" in self.__dict__:
            for key in self.cleaner.given_up():
                if key in self.logs:
                    yield self.logs[key].dir.parent

    def stop_cleaning(self) -> None:
        """Stop the cleaner's worker processes, if there are any."""
        if "cleaner" in self.__dict__:
            self.cleaner.stop()

    # Closing

    def close(self, high_watermark_of: Callable[[Log], int] = _log_end_offset) -> None:
        """Flush all logs, write the checkpoints, mark the directories as clean, and unlock them.

        A directory whose load did not complete is not marked: its state is not known.
        """
        self.stop_cleaning()
        self.maintenance.high_watermark_of = high_watermark_of
        self.moves.close()
        for directory in [online for online in self.online_dirs if online in self._loaded]:
            try:
                self._close_dir(directory)
            except OSError as error:
                self.dirs.dir_failed(directory, error)
            except LogError as error:  # the directory went offline in the middle
                _logger.error("Cannot close %s cleanly: %s", directory.path, error)
        self.dirs.unlock()

    def _close_dir(self, directory: LogDir) -> None:
        """Flush and close the logs of a directory, then mark its clean stop.

        The marker comes last: it says that all the rest is on disk. Raises OSError.
        """
        from kwire.log.upkeep import closing

        closing.close_all(self.dirs.logs_in(directory), self.closing_threads_max)
        self.files.fsync_dir(directory.path)
        for name in OF_PARTITIONS:
            directory.write_checkpoint(name, self.maintenance.lines(directory, name))
        directory.mark_clean_shutdown(self.broker_epoch)
