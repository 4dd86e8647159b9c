"""What the runtime asks of a coordinator machine, and how it makes a decision come true.

What happens of `Effects`, in this order:

1. `records` are appended to the partition, in one batch if they are `atomic`; as part of a
   transaction if there is a `producer`.  Where that fails nothing of the effects happens; instead
   those of `refused(error)` do, or, without it, the request is answered with the error;
2. each record is given to `apply`, the same that is called with it on load: the one place where
   what the log says (durable state) changes;
3. the effects are given to `settle`, which lays what the log does not say over it;
4. `notes` are logged, `timers` set and cancelled;
5. `replies` are sent once all records appended so far are committed.

So what a client is told is in the log, and a failed append leaves the machine as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from kwire.codecs.errors import ErrorCode

TimerKey = tuple[str, ...]
"""Names a timer: setting one with the key of another replaces it."""


class MachineRecord(Protocol):
    """What a machine writes to its partition."""

    def encode(self) -> tuple[bytes, bytes | None]:
        """Key and value."""


class Effects(Protocol):
    """What a decision comes to, before any of it has happened; see the module."""

    @property
    def records(self) -> Sequence[MachineRecord]: ...

    @property
    def replies(self) -> Sequence[tuple[Any, Any]]:
        """(ticket, response), each sent once.

        A ticket is a request that waits (kwire.coordinators.runtime.Ticket) or any other listener:
        it has `resolve(response)`, and `refuse(error)`, which makes a response of an error.
        """

    @property
    def timers(self) -> Sequence[tuple[TimerKey, Any, int]]:
        """(key, what `timer` is given when due or None to cancel, ms from now); later ones win."""

    @property
    def notes(self) -> Sequence[str]:
        """What an operator would want to read about it, in sentences."""

    @property
    def refused(self) -> Callable[[ErrorCode], Effects] | None:
        """What happens instead when the records could not be appended."""

    @property
    def atomic(self) -> bool:
        """Whether the records must share a batch."""

    @property
    def producer(self) -> tuple[int, int] | None:
        """(producer id, epoch) of the transaction that the records are part of."""


RecordT = TypeVar("RecordT")
EffectsT = TypeVar("EffectsT", bound=Effects)
TimerT = TypeVar("TimerT", contravariant=True)


class Machine(Protocol[RecordT, EffectsT, TimerT]):
    """What the runtime needs of a machine; kwire.groups.shard is one."""

    def decode(self, key: bytes | None, value: bytes | None) -> RecordT | None: ...
    def apply(self, record: RecordT) -> None: ...
    def settle(self, effects: EffectsT) -> None: ...
    def loaded(self, now_ms: int) -> Iterable[EffectsT]: ...
    def unloaded(self, now_ms: int) -> Iterable[EffectsT]: ...
    def timer(self, timer: TimerT, now_ms: int) -> EffectsT: ...


PendingT = TypeVar("PendingT", contravariant=True)


@runtime_checkable
class TransactionalMachine(Protocol[PendingT]):
    """A machine whose records may be part of clients' transactions."""

    def apply_pending(self, record: PendingT, producer_id: int) -> None:
        """As `apply`, for a record of a transaction that is not ended yet."""

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """A marker was appended: what is pending of the producer counts from now on, or never."""
