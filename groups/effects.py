"""What a decision comes to, before any of it has happened.

An operation, a timer and the end of loading each give `Effects` and change nothing.  The runtime
makes them come true (kwire.coordinator.machine says in which order): what a client is told is
then in the log, and a failed append leaves the group as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kwire.codecs.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.groups.classic.group import ClassicGroup
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
    producer: tuple[int, int] | None = None
    """(producer id, epoch) of the transaction that the records are part of."""

    @classmethod
    def reply(cls, ticket: Ticket, response: object) -> Effects:
        return cls(replies=[(ticket, response)])
