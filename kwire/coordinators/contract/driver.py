"""Carries out the decisions of one machine, on a broker and in tests alike.

`Driver.carry_out` does this with `Effects`, in this order:

1. It appends `records` to the partition: in one batch if they are `atomic`, as part of a client's
   transaction if there is a `producer`.  If the append fails, nothing else of these effects is
   done.  Instead it carries out `refused(error)`, or, if there is none, answers the request with
   the error.
2. It passes each record to the machine's `apply`.  Loading calls the same method, so durable state
   (what the log says) changes in one place only.
3. It passes the effects to `install_soft_state`, which sets the state that is not in the log.
4. It logs `notes`, then sets and cancels `timers`.
5. It sends `replies` once all records appended so far are committed.

Records that are `deferrable` are applied at once.  A driver may append them later, but before or
with any other record of the partition.
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
    """Drives one machine.  A subclass supplies the log, the timers and the replies."""

    def __init__(self, machine: M) -> None:
        self.machine = machine
        self._transactional: TransactionalMachine[Any] | None = (
            machine if isinstance(machine, TransactionalMachine) else None
        )

    def carry_out(
        self, effects: AnyEffects, ticket: Ticket | None = None, proof: object = None
    ) -> None:
        """Carries out all effects of a decision, or none if its records cannot be appended.

        `ticket` is the request that asked for the decision.  `proof` shows that the transaction of
        `effects.producer` is open; it is passed to `append`.
        """
        if effects.records:
            error = self.append(effects, proof)
            if error:
                if effects.refused is None:
                    if ticket is not None:
                        ticket.resolve(ticket.refuse(error))
                    return
                effects = effects.refused(error)
                assert not effects.records, "effects after a failed append append no records"
        self.machine.install_soft_state(effects)
        for note in effects.notes:
            self.note(note)
        if effects.timers:
            self.set_timers(effects.timers)
        if effects.timers_unless_set:
            self.set_timers(
                [timer for timer in effects.timers_unless_set if not self.has_timer(timer[0])]
            )
        if effects.replies:
            self.reply(effects.replies)

    def apply(self, record: object, producer_id: int) -> None:
        """Apply a record to the machine: as pending if `producer_id` is that of a transaction."""
        if producer_id < 0 or self._transactional is None:
            self.machine.apply(record)
        else:
            self._transactional.apply_pending(record, producer_id)

    def follow_marker(self, producer_id: int, *, commit: bool) -> None:
        """Tell the machine that a client's transaction has ended."""
        if self._transactional is not None:
            self._transactional.end_transaction(producer_id, commit)

    # -- the outside world

    @abstractmethod
    def append(self, effects: AnyEffects, proof: object) -> ErrorCode:
        """Write the records and `apply` each.  Returns NONE, or the error that clients get."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Log a sentence for the operator."""

    @abstractmethod
    def set_timers(self, timers: Sequence[tuple[TimerKey, Any, int]]) -> None:
        """Set and cancel timers; see Effects.timers."""

    @abstractmethod
    def has_timer(self, key: TimerKey) -> bool:
        """Whether a timer with this key is set."""

    @abstractmethod
    def reply(self, replies: Sequence[tuple[Ticket, object]]) -> None:
        """Send replies once all records appended so far are committed."""
