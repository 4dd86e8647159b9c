"""What a decision of a coordinator comes to, before any of it has happened.

An operation, a timer and the end of loading each give `Effects` and change nothing; a driver makes
them come true (kwire.coordinators.contract.driver says in which order).  So what a client is told
is in the log, and a failed append leaves the machine as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

from kwire.codecs.errors import ErrorCode

TimerKey = tuple[str, ...]
"""Names a timer: setting one with the key of another replaces it."""

RecordT = TypeVar("RecordT")
TimerT = TypeVar("TimerT")
SoftT = TypeVar("SoftT")


class Ticket(Protocol):
    """Who waits for a reply: a request that is parked, or any other listener."""

    def resolve(self, value: Any, /) -> None:  # noqa: ANN401 - a reply of any kind
        """Here is the reply."""

    @property
    def refuse(self) -> Callable[[ErrorCode], Any]:
        """Makes the reply that tells of an error."""


@dataclass(slots=True)
class Effects(Generic[RecordT, TimerT, SoftT]):
    """See the module; what each field comes to is in kwire.coordinators.contract.driver."""

    records: list[RecordT] = field(default_factory=list)
    replies: list[tuple[Ticket, object]] = field(default_factory=list)
    """(ticket, response): a request's ticket once, in this decision or in a later one."""
    timers: list[tuple[TimerKey, TimerT | None, int]] = field(default_factory=list)
    """(key, timer, ms from now); no timer: cancel.  Later entries of a key win."""
    timers_unless_set: list[tuple[TimerKey, TimerT, int]] = field(default_factory=list)
    """As `timers`, behind them; one whose key is set by then is left as it is."""
    notes: list[str] = field(default_factory=list)
    """What an operator would want to read about it, in sentences."""
    soft: SoftT | None = None
    """State that is not in records, as it is from now on: the machine's `settle` takes it over."""
    refused: Callable[[ErrorCode], Self] | None = None
    """What happens instead when the records could not be appended."""
    atomic: bool = True
    """Whether the records must share a batch; what only cleans up may be spread over several."""
    producer: tuple[int, int] | None = None
    """(producer id, epoch) of the client's transaction that the records are part of."""

    @classmethod
    def reply(cls, ticket: Ticket, response: object) -> Self:
        return cls(replies=[(ticket, response)])
