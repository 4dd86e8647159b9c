"""A decision about one group of any kind, while it is made: it collects the effects."""

from __future__ import annotations

from typing import ClassVar

from kwire.coordinators.contract.effects import TimerKey
from kwire.groups.effects import GroupEffects, Rebalance, Ticket
from kwire.groups.limits import GroupLimits
from kwire.groups.timers import GroupTimer, SessionTimer


class GroupDecision:
    """The base of each kind's decision.  Until `effects` are carried out, nothing changes."""

    __slots__ = ("effects", "group_id", "limits", "now_ms")

    NOUN: ClassVar[str] = "group"
    """The word for the group in the broker's log."""

    def __init__(
        self, group_id: str, limits: GroupLimits, now_ms: int, effects: GroupEffects
    ) -> None:
        """Begin a decision at `now_ms`; it collects what it decides in `effects`."""
        self.group_id = group_id
        self.limits = limits
        self.now_ms = now_ms
        self.effects = effects

    def reply(self, ticket: Ticket, response: object) -> None:
        self.effects.replies.append((ticket, response))

    def set_timer(self, timer: GroupTimer, delay_ms: int) -> None:
        self.effects.timers.append((timer.key, timer, delay_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        self.effects.timers.append((key, None, 0))

    def note(self, text: str) -> None:
        """Add a sentence for the operator to the broker's log."""
        self.effects.notes.append(f"{self.NOUN} {self.group_id}: {text}")

    def begin_rebalance(self, reason: str) -> None:
        """Say why the group rebalances: what this decision has noted so far, else `reason`."""
        if self.effects.rebalance is None:
            subject = f"{self.NOUN} {self.group_id}: "
            noted = "; ".join(note.removeprefix(subject) for note in self.effects.notes)
            self.effects.rebalance = Rebalance(self.group_id, noted or reason, self.now_ms)

    def begin_session(self, member_id: str, timeout_ms: int) -> None:
        """Start or restart a session: a member without a request for `timeout_ms` is removed."""
        self.set_timer(SessionTimer(self.group_id, member_id), timeout_ms)

    def end_session(self, member_id: str) -> None:
        self.cancel_timer(SessionTimer(self.group_id, member_id).key)
