"""How a decision comes true, on a broker and in a test alike.

What happens of `Effects`, in this order:

1. `records` are appended to the partition, in one batch if they are `atomic`; as part of a
   transaction if there is a `producer`.  Where that fails nothing of the effects happens; instead
   those of `refused(error)` do, or, without it, the request is answered with the error;
2. each record is given to the machine's `apply`, the same that is called with it on load: the one
   place where what the log says (durable state) changes;
3. the effects are given to `settle`, which lays what the log does not say over it;
4. `notes` are told, `timers` set and cancelled;
5. `replies` are sent once all records appended so far are committed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.contract.effects import Effects, Ticket, TimerKey
from kwire.coordinators.contract.machine import Machine, TransactionalMachine

M = TypeVar("M", bound=Machine[Any, Any, Any])

AnyEffects = Effects[Any, Any, Any]


class Driver(ABC, Generic[M]):
    """Drives one machine; what the outside world is, a subclass says."""

    def __init__(self, machine: M) -> None:
        self.machine = machine
        self._transactional: TransactionalMachine[Any] | None = (
            machine if isinstance(machine, TransactionalMachine) else None
        )

    def happen(
        self, effects: AnyEffects, ticket: Ticket | None = None, proof: object = None
    ) -> None:
        """Make the effects of a decision come true, or none of them.

        `proof` is handed on to `append`: that the transaction of `effects.producer` goes on.
        """
        if effects.records:
            error = self.append(effects, proof)
            if error:
                if effects.refused is None:
                    if ticket is not None:
                        ticket.resolve(ticket.refuse(error))
                    return
                effects = effects.refused(error)
                assert not effects.records, "what happens instead of an append appends nothing"
        self.machine.settle(effects)
        for note in effects.notes:
            self.note(note)
        if effects.timers:
            self.set_timers(effects.timers)
        if effects.timers_unless_set:
            self.set_timers(
                [each for each in effects.timers_unless_set if not self.awaits(each[0])]
            )
        if effects.replies:
            self.reply(effects.replies)

    def apply(self, record: object, producer_id: int) -> None:
        """Have the machine follow a record, of a client's transaction if it has a producer."""
        if producer_id < 0 or self._transactional is None:
            self.machine.apply(record)
        else:
            self._transactional.apply_pending(record, producer_id)

    def follow_marker(self, producer_id: int, *, commit: bool) -> None:
        """Have the machine follow the end of a client's transaction."""
        if self._transactional is not None:
            self._transactional.end_transaction(producer_id, commit)

    # -- the outside world

    @abstractmethod
    def append(self, effects: AnyEffects, proof: object) -> ErrorCode:
        """Write the records and `apply` each; an error, as clients are told it, if that failed."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Tell the operator."""

    @abstractmethod
    def set_timers(self, timers: Sequence[tuple[TimerKey, Any, int]]) -> None:
        """Set and cancel; see Effects.timers."""

    @abstractmethod
    def awaits(self, key: TimerKey) -> bool:
        """Whether a timer of this key is set."""

    @abstractmethod
    def reply(self, replies: Sequence[tuple[Ticket, object]]) -> None:
        """Let replies go once all that was appended so far is committed."""
