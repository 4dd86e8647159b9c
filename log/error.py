"""How an operation on a log fails: with the error code that goes on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.codecs.errors import ErrorCode


class LogError(Exception):
    """An append or a read was refused; the log is unchanged.

    `message` and `record_errors` (index in the batch, sentence) are what Produce v8+ shows to the
    client (KIP-467); Apache Kafka fills them in only where single records were looked at, so they
    are empty for other refusals.  `log_start_offset` is the one that Kafka puts beside the error:
    -1 where it refuses before it looks at the log's state.  `detail` is for this broker's own log.
    """

    def __init__(
        self,
        error: ErrorCode,
        detail: str = "",
        *,
        message: str | None = None,
        record_errors: Sequence[tuple[int, str]] = (),
        log_start_offset: int = -1,
    ) -> None:
        super().__init__(error.name, message or detail)
        self.error = error
        self.detail = detail
        self.message = message
        self.record_errors = list(record_errors)
        self.log_start_offset = log_start_offset


class LogDirLocked(Exception):
    """Another process uses the log directory (it holds the lock on `.lock`)."""


class LogDirError(Exception):
    """A log directory cannot be used as it is; the sentence says why and what to do."""


class OtherTopic(LogDirError):
    """A partition's folder belongs to another topic of the same name, by its topic id."""


class CorruptFile(Exception):
    """A checkpoint, snapshot or index does not hold what its format says; it will be rebuilt."""


class NotTakenBack(OSError):
    """Part of a batch was written, and the file could not be cut back: a shortage or not."""
