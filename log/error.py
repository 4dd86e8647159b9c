"""The exceptions of the log engine; a LogError has the error code for the response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.codecs.errors import ErrorCode


class LogError(Exception):
    """An append or a read was refused; the log is unchanged.

    error              the error code for the response
    detail             the reason, for this broker's own log
    message            error message in the response of Produce v8+ (KIP-467); None if Apache Kafka
                       has none, as it has one only for refusals of single records
    record_errors      index in the batch and message of each refused record (KIP-467)
    log_start_offset   the log start offset in the response; -1 if Apache Kafka refuses the batch
                       before it reads the log's state
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
        """Describe an error; `detail` is for the log, `message` is sent to the client.

        `record_errors` are (index of the record in the batch, message) of refused records.
        """
        super().__init__(error.name, message or detail)
        self.error = error
        self.detail = detail
        self.message = message
        self.record_errors = list(record_errors)
        self.log_start_offset = log_start_offset


class LogDirLocked(Exception):
    """Another process uses the log directory (it holds the lock on `.lock`)."""


class LogDirError(Exception):
    """A log directory cannot be used as it is; the message says why and what to do."""


class OtherTopic(LogDirError):
    """The topic id in a partition's folder is that of another topic of the same name."""


class CorruptFile(Exception):
    """A checkpoint, snapshot or index does not follow its format; the caller rebuilds it."""


class NotTakenBack(OSError):
    """Part of a batch was written, and the file could not be cut back to its old size.

    The log goes offline, even if the cause was a shortage.
    """
