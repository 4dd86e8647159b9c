"""Where a log's files are, and what is said of it when the disk refuses."""

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


class Removal(NamedTuple):
    """Files renamed to `.deleted`, to be removed `file.delete.delay.ms` later, at `due_ms`."""

    due_ms: int
    paths: list[Path]


class Storage:
    """One partition's folder, of the parts of a log that work in it.

    They tell it of each OSError, by `failed` or `refused`, and raise the LogError that it gives.
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
        self.dir = directory
        self.topic = topic
        self.partition = partition
        self.files = files
        self.open_files = open_files
        self.on_failure: Callable[[OSError], None] | None = None
        """Told of a failure that does not pass: the log is offline from then on."""
        self.removals: list[Removal] = []

    def failed(self, error: OSError) -> LogError:
        """The disk refused: the log takes no more appends, and its directory goes offline."""
        _logger.error("%s-%d in %s: %s", self.topic, self.partition, self.dir.parent, error)
        if self.on_failure is not None:
            self.on_failure(error)
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def refused(self, error: OSError) -> LogError:
        """As `failed`, for a step that changed nothing: a shortage is no failure."""
        if isinstance(error, NotTakenBack) or not passes(error):
            return self.failed(error)
        _logger.warning("%s-%d in %s: %s", self.topic, self.partition, self.dir.parent, error)
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def read_failed(self, error: Exception) -> LogError:
        """Reading gave an OSError, or what is there is corrupt."""
        if isinstance(error, OSError):
            return self.refused(error)
        return LogError(ErrorCode.CORRUPT_MESSAGE, str(error))

    def write_topic_id(self, topic_id: bytes) -> None:
        """Whose folder it is from now on.  LogError."""
        try:
            partition_metadata.write(self.files, self.dir, topic_id)
        except OSError as error:
            raise self.refused(error) from error

    def remove_later(self, paths: list[Path], due_ms: int) -> None:
        """Rename files to `.deleted` now; `LogManager.maintain` has them removed at `due_ms`."""
        renamed = []
        for path in paths:
            target = path.with_name(path.name + ".deleted")
            try:
                self.files.rename(path, target)
            except FileNotFoundError:
                continue
            renamed.append(target)
        self.removals.append(Removal(due_ms, renamed))

    def take_due(self, now_ms: int) -> list[Path]:
        """What is to be removed by now: who asks does it."""
        paths = [path for each in self.removals if each.due_ms <= now_ms for path in each.paths]
        if paths:
            self.removals = [each for each in self.removals if each.due_ms > now_ms]
        return paths

    def move(self, directory: Path) -> None:
        """The folder has been renamed: its files are found there from now on."""
        self.dir = directory
        self.removals = [
            Removal(due_ms, [directory / path.name for path in paths])
            for due_ms, paths in self.removals
        ]
