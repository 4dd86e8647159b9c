"""What groups wait for.

A timer is known by its `key`: setting one with the key of another replaces it.  The driver gives
the timer back to the machine when its time has come; the machine looks then whether it still
matters.  Each kind of groups has timers of its own beside
those here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kwire.coordinators.contract.effects import TimerKey


class GroupTimer(Protocol):
    """A timer of one group."""

    @property
    def key(self) -> TimerKey: ...

    @property
    def group_id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A member, or one that was only given an id, was not heard of for its session timeout."""

    group_id: str
    member_id: str

    @property
    def key(self) -> TimerKey:
        return ("session", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class RetentionTimer:
    """`offsets.retention.check.interval.ms` passed."""

    @property
    def key(self) -> TimerKey:
        return ("retention",)


Timer = GroupTimer | RetentionTimer
