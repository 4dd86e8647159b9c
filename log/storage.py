"""The folder of one log, and its disk errors: which of them take the log offline."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.log.directory import partition_metadata
from kwire.log.directory.shortage import passes
from kwire.log.error import LogError, NotTakenBack

if TYPE_CHECKING:
    from kwire.log.directory.files import Files
    from kwire.log.reading.region import OpenFiles

_logger = logging.getLogger(__name__)


class PendingRemoval(NamedTuple):
    """Files that were renamed to `.deleted`; they are removed at `due_ms`, as
    `file.delete.delay.ms` says."""

    due_ms: int
    paths: list[Path]


class Storage:
    """The folder of one partition, which all parts of a log share.

    A part that catches an OSError passes it to `failed` or `refused`, and raises the LogError that
    these return.
    """

    __slots__ = (
        "dir",
        "files",
        "on_failure",
        "open_files",
        "partition",
        "removals",
        "topic",
    )

    def __init__(
        self, directory: Path, topic: str, partition: int, files: Files, open_files: OpenFiles
    ) -> None:
        """Describe the folder of a log, whose pending removals begin empty."""
        self.dir = directory
        self.topic = topic
        self.partition = partition
        self.files = files
        self.open_files = open_files
        self.on_failure: Callable[[OSError], None] | None = None
        """Called with a disk failure that is not a shortage; it takes the log offline."""
        self.removals: list[PendingRemoval] = []

    def failed(self, error: OSError) -> LogError:
        """The LogError for a disk failure; the log and its log directory go offline."""
        _logger.error("%s-%d in %s: %s", self.topic, self.partition, self.dir.parent, error)
        if self.on_failure is not None:
            self.on_failure(error)
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def refused(self, error: OSError) -> LogError:
        """The LogError for a step that changed nothing; a shortage takes nothing offline."""
        if isinstance(error, NotTakenBack) or not passes(error):
            return self.failed(error)
        _logger.warning("%s-%d in %s: %s", self.topic, self.partition, self.dir.parent, error)
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def read_failed(self, error: Exception) -> LogError:
        """The LogError for a failed read: an OSError, or a corrupt batch."""
        if isinstance(error, OSError):
            return self.refused(error)
        return LogError(ErrorCode.CORRUPT_MESSAGE, str(error))

    def write_topic_id(self, topic_id: bytes) -> None:
        """Write `partition.metadata`.  Raises LogError."""
        try:
            partition_metadata.write(self.files, self.dir, topic_id)
        except OSError as error:
            raise self.refused(error) from error

    def remove_later(self, paths: list[Path], due_ms: int) -> None:
        """Rename files to `.deleted` now; `LogManager.maintain` removes them at `due_ms`."""
        renamed = []
        for path in paths:
            target = path.with_name(path.name + ".deleted")
            try:
                self.files.rename(path, target)
            except FileNotFoundError:
                continue
            renamed.append(target)
        self.removals.append(PendingRemoval(due_ms, renamed))

    def take_due(self, now_ms: int) -> list[Path]:
        """Return the files that are due for removal; the caller removes them."""
        due = [removal for removal in self.removals if removal.due_ms <= now_ms]
        paths = [path for removal in due for path in removal.paths]
        if paths:
            self.removals = [removal for removal in self.removals if removal.due_ms > now_ms]
        return paths

    def move(self, directory: Path) -> None:
        """Use the new path of a renamed folder."""
        self.dir = directory
        self.removals = [
            PendingRemoval(due_ms, [directory / path.name for path in paths])
            for due_ms, paths in self.removals
        ]
