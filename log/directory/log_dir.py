"""One of the `log.dirs`: its lock, its marker of a clean stop, its checkpoints, its sub-folders."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log.directory import checkpoints, meta_properties
from kwire.log.directory.locking import FolderLock
from kwire.log.directory.meta_properties import MetaProperties
from kwire.log.directory.shortage import passes
from kwire.log.error import CorruptFile, LogDirError

if TYPE_CHECKING:
    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.log.directory.files import Files

_logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
NAME_BYTES_MAX = 255
NO_BROKER_EPOCH = -1

KRAFT_METADATA = "__cluster_metadata-0"
_NOT_PARTITIONS = {KRAFT_METADATA, "remote-log-index-cache", "lost+found"}


def partition_folder(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_folder(name: str) -> TopicPartition | None:
    """(topic, partition) of a folder's name, None if it is not that of a partition."""
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isascii() and partition.isdecimal()):
        return None
    return topic, int(partition)


def new_unique() -> str:
    """32 hex digits that tell a folder to be deleted, or one to be moved to, from all others."""
    return uuid.uuid4().hex


def delete_folder(topic: str, partition: int, unique: str | None = None) -> str:
    """A name for a deleted partition's folder that no partition can have.

    `<topic>-<partition>.<32 hex digits>-delete`, the topic cut so that the name stays valid.
    """
    ending = f"-{partition}.{unique or new_unique()}{DELETE_SUFFIX}"
    return topic[: NAME_BYTES_MAX - len(ending)] + ending


def stray_folder(topic: str, partition: int) -> str:
    """A name for a folder that nobody has asked to delete, but that is not this partition's.

    As Kafka's, `<topic>-<partition>.<32 hex digits>-stray`.
    """
    ending = f"-{partition}.{new_unique()}{STRAY_SUFFIX}"
    return topic[: NAME_BYTES_MAX - len(ending)] + ending


def future_folder(topic: str, partition: int, unique: str) -> str:
    """Where a partition is copied to that moves to another log directory (KIP-113).

    Not cut: its name is all that says which partition it is.
    """
    return f"{topic}-{partition}.{unique}{FUTURE_SUFFIX}"


def parse_future_folder(name: str) -> tuple[TopicPartition, str] | None:
    """((topic, partition), the hex digits) of such a name, None if it is none."""
    folder, dot, unique = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    key = parse_partition_folder(folder)
    return (key, unique) if dot and key is not None and name.endswith(FUTURE_SUFFIX) else None


def clean_shutdown(broker_epoch: int = NO_BROKER_EPOCH) -> bytes:
    """What the marker of a clean stop says."""
    content = {"version": 0, "brokerEpoch": broker_epoch}
    return json.dumps(content, separators=(",", ":")).encode()


class LogDir:
    """One log directory, locked for this process from `open` until `unlock`."""

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self.files = files
        self._lock = FolderLock(path, files)
        self._numbers = itertools.count()
        self._newest: dict[str, int] = {}
        self._departed: dict[str, dict[TopicPartition, int]] = {}
        self._writing = threading.Lock()

    def open(self) -> None:
        """Make the folder if need be and lock it.  LogDirLocked, or OSError."""
        self._make()
        self._lock.acquire()

    def _make(self) -> None:
        """Make the folder and those above it that are missing, each durable in its parent."""
        missing = [each for each in (self.path, *self.path.parents) if not each.exists()]
        for folder in reversed(missing):
            self.files.make_folder(folder)
            self.files.fsync_dir(folder.parent)
        self.files.make_folder(self.path)  # says why if it is there and is no folder

    def unlock(self) -> None:
        """Let another process have it."""
        self._lock.release()

    # Identity

    def identity(self) -> MetaProperties | None:
        return meta_properties.read(self.files, self.path)

    def set_identity(self, properties: MetaProperties) -> None:
        meta_properties.write(self.files, self.path, properties)

    # Clean stop

    def take_clean_shutdown(self) -> bool:
        """Whether the last owner stopped cleanly.

        The marker is removed at once: dying while loading is not a clean stop.
        """
        path = self.path / CLEAN_SHUTDOWN
        if not path.exists():
            return False
        self.files.remove(path)
        self.files.fsync_dir(self.path)
        return True

    def mark_clean_shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        self.files.replace(self.path / CLEAN_SHUTDOWN, clean_shutdown(broker_epoch))

    # Checkpoints

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint's offsets; none at all when it is broken, which costs a longer recovery."""
        try:
            return checkpoints.read_offsets(self.files, self.path / name)
        except CorruptFile as error:
            _logger.warning("%s is ignored: %s", self.path / name, error)
            return {}

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.checkpoint_writer(name, offsets)()

    def checkpoint_writer(
        self, name: str, offsets: Mapping[TopicPartition, int]
    ) -> Callable[[], None]:
        """What writes a checkpoint, in any thread; one made ready before never overwrites it."""
        number = next(self._numbers)

        def write() -> None:
            with self._writing:
                if number >= self._newest.get(name, 0):
                    checkpoints.write_offsets(self.files, self.path / name, offsets)
                    self._newest[name] = number

        return write

    def departed(
        self, key: TopicPartition, names: Iterable[str] = checkpoints.OF_PARTITIONS
    ) -> None:
        """A log is not here any more, but the checkpoints on disk may have lines for it.

        A line knows no topic id.  So before a log of that name comes here again, whoever brings it
        writes those that `outdated` gives: what a deleted topic left would be taken for the new
        one's, and cost it records.
        """
        number = next(self._numbers)
        for name in names:
            self._departed.setdefault(name, {})[key] = number

    def outdated(self, key: TopicPartition | None = None) -> list[str]:
        """The checkpoints that may have a line for a log that has departed: for that one, or any.

        One that is written has none any more, if it was made ready since.
        """
        found = []
        for name, keys in self._departed.items():
            newest = self._newest.get(name, -1)
            for gone in [each for each, number in keys.items() if number < newest]:
                del keys[gone]
            if key in keys or (key is None and keys):
                found.append(name)
        return found

    # Folders

    def folders(self) -> list[str]:
        """Names of the sub-folders that belong to partitions, also deleted ones."""
        with os.scandir(self.path) as entries:
            found = [entry.name for entry in entries if entry.is_dir()]
        return sorted(name for name in found if name not in _NOT_PARTITIONS)

    def make_folder(self, name: str) -> Path:
        """Not fsynced: a partition's first flush does that."""
        path = self.path / name
        self.files.make_folder(path)
        return path

    def rename_folder(self, path: Path, name: str) -> Path:
        target = self.path / name
        self.files.rename(path, target)
        try:
            self.files.fsync_dir(self.path)
        except OSError as error:
            if not passes(error):
                raise
            _logger.warning("the new name %s is not durable yet: %s", target, error)
        return target

    def disk_usage(self) -> tuple[int, int]:
        """(total, usable) bytes of the volume (KIP-827)."""
        usage = shutil.disk_usage(self.path)
        return usage.total, usage.free


def check_distinct(paths: list[Path]) -> None:
    """LogDirError if two of the `log.dirs` are the same folder."""
    seen: dict[Path, Path] = {}
    for path in paths:
        real = path.resolve()
        if real in seen:
            raise LogDirError(f"log.dirs names one folder twice: {seen[real]} and {path}")
        seen[real] = path
