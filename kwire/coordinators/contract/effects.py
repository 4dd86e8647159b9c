"""The effects of a coordinator's decision, as a value: nothing is done yet.

An operation, a timer that fires and the end of loading each return `Effects` and change nothing.
A driver carries them out (kwire.coordinators.contract.driver says in which order).  Therefore a
client never gets a reply whose records are not in the log, and a failed append leaves the machine
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

from kwire.codecs.errors import ErrorCode

TimerKey = tuple[str, ...]
"""Identifies a timer: setting a timer replaces the one with the same key."""

RecordT = TypeVar("RecordT")
TimerT = TypeVar("TimerT")
SoftT = TypeVar("SoftT")


class Ticket(Protocol):
    """Something that waits for a reply: a parked request, or another listener."""

    def resolve(self, value: Any, /) -> None:  # noqa: ANN401 - a reply of any kind
        """Deliver the reply."""

    @property
    def refuse(self) -> Callable[[ErrorCode], Any]:
        """A function that makes the reply for an error."""


@dataclass(slots=True)
class Effects(Generic[RecordT, TimerT, SoftT]):
    """See the module; kwire.coordinators.contract.driver says how each field is carried out."""

    records: list[RecordT] = field(default_factory=list)
    replies: list[tuple[Ticket, object]] = field(default_factory=list)
    """(ticket, response).  Each request's ticket occurs once, here or in a later decision."""
    timers: list[tuple[TimerKey, TimerT | None, int]] = field(default_factory=list)
    """(key, timer, ms from now); timer None cancels.  The last entry of a key wins."""
    timers_unless_set: list[tuple[TimerKey, TimerT, int]] = field(default_factory=list)
    """Like `timers` and handled after them; an entry whose key is already set has no effect."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the operator's log."""
    soft: SoftT | None = None
    """New state that is not in records; the machine's `install_soft_state` receives it."""
    refused: Callable[[ErrorCode], Self] | None = None
    """Makes the effects that replace these if the records cannot be appended."""
    atomic: bool = True
    """Whether all records must be in one batch.  Records that only clean up need not be."""
    producer: tuple[int, int] | None = None
    """(producer id, epoch) of the client's transaction that the records belong to."""
    deferrable: bool = False
    """Whether the records may be appended a little later, with the next ones of the partition: what
    `loaded` does after a replay without them leads to the same records.  They have no `producer`,
    and no reply waits for them."""

    @classmethod
    def reply(cls, ticket: Ticket, response: object) -> Self:
        """Effects that only answer a request."""
        return cls(replies=[(ticket, response)])
