"""What a decision comes to, before any of it has happened; and the contract with the runtime.

An operation, a timer and the end of loading each give `Effects` and change nothing.  The runtime

1. appends `records` to the partition.  Where that fails nothing of the effects happens; instead
   those of `refused(error)` do, or, without it, the request is answered with the error;
2. gives each record to `apply`, the same that was called with it on load: the one place where
   what the log says (durable state) changes;
3. gives the effects to `settle`, which lays what the log does not say (soft state: who is joining,
   which requests are parked) over it;
4. sets and cancels `timers`;
5. sends `replies` once all records appended so far are committed.

So what a client is told is in the log, and a failed append leaves the group as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kwire.codecs.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.groups.classic_group import ClassicGroup
    from kwire.groups.records import Record
    from kwire.groups.timers import Timer, TimerKey

Ticket = Any
"""Names a request that waits for its reply: given by the runtime, handed back with the reply."""


@dataclass(slots=True)
class Effects:
    """See the module."""

    records: list[Record] = field(default_factory=list)
    replies: list[tuple[Ticket, object]] = field(default_factory=list)
    """(ticket, response): each ticket once, in this decision or in a later one."""
    timers: list[tuple[TimerKey, Timer | None, int]] = field(default_factory=list)
    """(key, timer, ms from now); no timer: cancel.  Later entries of a key win."""
    notes: list[str] = field(default_factory=list)
    """What an operator would want to read about it, in sentences."""
    group: ClassicGroup | None = None
    """The session of a group as it is from now on."""
    refused: Callable[[ErrorCode], Effects] | None = None
    """What happens instead when the records could not be appended."""
    atomic: bool = True
    """Whether the records must share a batch; what only cleans up may be spread over several."""

    @classmethod
    def reply(cls, ticket: Ticket, response: object) -> Effects:
        return cls(replies=[(ticket, response)])


_ERRORS_OF_APPEND = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def client_error(append_error: ErrorCode) -> ErrorCode:
    """What a client is told when the coordinator's own append failed."""
    return _ERRORS_OF_APPEND.get(append_error, append_error)
