"""One log directory (of `log.dirs`): its lock, clean-stop marker, checkpoints and folders."""

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

from kwire.codecs.uuids import uuid_bytes
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
    """The (topic, partition) of a folder's name; None if it is no partition's folder."""
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isascii() and partition.isdecimal()):
        return None
    return topic, int(partition)


def new_unique() -> str:
    """32 hex digits that make the name of a deleted or future folder unique."""
    return uuid.uuid4().hex


def delete_folder(topic: str, partition: int, unique: str | None = None) -> str:
    """Return the new name of a deleted partition's folder, which no partition can have.

    `<topic>-<partition>.<32 hex digits>-delete`; the topic is cut if the name would be too long.
    """
    ending = f"-{partition}.{unique or new_unique()}{DELETE_SUFFIX}"
    return topic[: NAME_BYTES_MAX - len(ending)] + ending


def stray_folder(topic: str, partition: int) -> str:
    """Return the new name of a folder that belongs to no current partition, and is kept.

    As in Apache Kafka: `<topic>-<partition>.<32 hex digits>-stray`.
    """
    ending = f"-{partition}.{new_unique()}{STRAY_SUFFIX}"
    return topic[: NAME_BYTES_MAX - len(ending)] + ending


def future_folder(topic: str, partition: int, unique: str) -> str:
    """The folder of the copy of a partition that moves to another log directory (KIP-113).

    The name is never cut: nothing else says which partition the copy is of.
    """
    return f"{topic}-{partition}.{unique}{FUTURE_SUFFIX}"


def parse_future_folder(name: str) -> tuple[TopicPartition, str] | None:
    """The ((topic, partition), hex digits) of a future folder's name; None for other names."""
    folder, dot, unique = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    key = parse_partition_folder(folder)
    return (key, unique) if dot and key is not None and name.endswith(FUTURE_SUFFIX) else None


def clean_shutdown(broker_epoch: int = NO_BROKER_EPOCH) -> bytes:
    """The content of the clean-stop marker."""
    content = {"version": 0, "brokerEpoch": broker_epoch}
    return json.dumps(content, separators=(",", ":")).encode()


class LogDir:
    """One log directory, locked for this process from `open` until `unlock`."""

    def __init__(self, path: Path, files: Files) -> None:
        """Describe the directory at `path`; nothing is read or locked yet."""
        self.path = path
        self.files = files
        self._lock = FolderLock(path, files)
        self._numbers = itertools.count()
        self._newest: dict[str, int] = {}
        self._departed: dict[str, dict[TopicPartition, int]] = {}
        self._writing = threading.Lock()

    def open(self) -> None:
        """Make the folder if it is missing, and lock it.  Raises LogDirLocked, OSError."""
        self._make()
        self._lock.acquire()

    def _make(self) -> None:
        """Make the folder and its missing parents; flush each one's name in its parent."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        for folder in reversed(missing):
            self.files.make_folder(folder)
            self.files.fsync_dir(folder.parent)
        self.files.make_folder(self.path)  # raises if the path is a file

    def unlock(self) -> None:
        """Release the lock."""
        self._lock.release()

    # Identity

    def identity(self) -> MetaProperties | None:
        return meta_properties.read(self.files, self.path)

    def set_identity(self, properties: MetaProperties) -> None:
        meta_properties.write(self.files, self.path, properties)

    @property
    def id(self) -> bytes | None:
        """The `directory.id` in its identity; None before version 1 of that."""
        known = self.identity()
        text = None if known is None else known.directory_id
        return None if text is None else uuid_bytes(text)

    # Clean stop

    def clean_shutdown_epoch(self) -> int:
        """Return the broker epoch in the marker of the last clean stop; -1 if there is none."""
        try:
            content = json.loads(self.files.read(self.path / CLEAN_SHUTDOWN))
            epoch = content["brokerEpoch"]
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return NO_BROKER_EPOCH  # unclean, or from before the marker had an epoch
        return epoch if isinstance(epoch, int) else NO_BROKER_EPOCH

    def take_clean_shutdown(self) -> bool:
        """Return whether the last owner stopped cleanly; removes the marker.

        It is removed at once: a process that dies while loading has not stopped cleanly.
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
        """Return the offsets in a checkpoint; empty if it is broken, which makes recovery
        longer.
        """
        try:
            return checkpoints.read_offsets(self.files, self.path / name)
        except CorruptFile as error:
            _logger.warning("Ignoring %s: %s", self.path / name, error)
            return {}

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.checkpoint_writer(name, offsets)()

    def checkpoint_writer(
        self, name: str, offsets: Mapping[TopicPartition, int]
    ) -> Callable[[], None]:
        """Return a function that writes a checkpoint in any thread.

        An older function, if it runs later, does not overwrite the newer content.
        """
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
        """Note that a log has left this directory, while checkpoints may still have lines for it.

        A line has no topic id.  Before a log of that name comes here again, the caller writes the
        checkpoints that `outdated` returns.  Otherwise the lines of a deleted topic would count for
        the new topic, which would lose records.
        """
        number = next(self._numbers)
        for name in names:
            self._departed.setdefault(name, {})[key] = number

    def outdated(self, key: TopicPartition | None = None) -> list[str]:
        """Return the checkpoints that may have a line for the departed log `key`, or for any such
        log.

        A checkpoint whose content was made after the departure has no such line once it is written.
        """
        names = []
        for name, keys in self._departed.items():
            newest = self._newest.get(name, -1)
            for written in [departed for departed, number in keys.items() if number < newest]:
                del keys[written]
            if key in keys or (key is None and keys):
                names.append(name)
        return names

    # Folders

    def folders(self) -> list[str]:
        """The names of the folders of partitions, with deleted ones, sorted."""
        with os.scandir(self.path) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
        return sorted(name for name in names if name not in _NOT_PARTITIONS)

    def make_folder(self, name: str) -> Path:
        """Make a partition's folder without an fsync: the log's first flush does that."""
        path = self.path / name
        self.files.make_folder(path)
        return path

    def rename_folder(self, path: Path, name: str, *, durable: bool = True) -> Path:
        """Rename a folder of this directory, and return its path.  Raises OSError.

        The new name is made durable, unless the caller does that by `sync_names` later.
        """
        target = self.path / name
        self.files.rename(path, target)
        if durable:
            self.sync_names()
        return target

    def sync_names(self) -> None:
        """Make the names of the folders durable.  Raises OSError.

        If that fails for want of space or the like, it is logged: the renames are done.
        """
        try:
            self.files.fsync_dir(self.path)
        except OSError as error:
            if not passes(error):
                raise
            _logger.warning("new names in %s are not durable yet: %s", self.path, error)

    def disk_usage(self) -> tuple[int, int]:
        """(total, usable) bytes of the volume (KIP-827)."""
        usage = shutil.disk_usage(self.path)
        return usage.total, usage.free


def check_distinct(paths: list[Path]) -> None:
    """Raise LogDirError if two of the `log.dirs` are the same folder."""
    seen: dict[Path, Path] = {}
    for path in paths:
        real = path.resolve()
        if real in seen:
            raise LogDirError(f"log.dirs names one folder twice: {seen[real]} and {path}")
        seen[real] = path
