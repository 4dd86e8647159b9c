"""What a group waits for.

A timer is known by its `key`: setting one with the key of another replaces it.  The runtime gives
the timer back to the machine when its time has come; the machine looks then whether it still
matters.
"""

from __future__ import annotations

from dataclasses import dataclass

TimerKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A member, or one that was only given an id, was not heard of for its session timeout."""

    group_id: str
    member_id: str

    @property
    def key(self) -> TimerKey:
        return ("session", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class InitialJoinTimer:
    """A new group waited `delay_ms` for its first members; `remaining_ms` more would be allowed."""

    group_id: str
    delay_ms: int
    remaining_ms: int

    @property
    def key(self) -> TimerKey:
        return ("join", self.group_id)


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """The rebalance timeout passed while members still had to rejoin."""

    group_id: str

    @property
    def key(self) -> TimerKey:
        return ("join", self.group_id)


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """The rebalance timeout passed while members of this generation still had to sync."""

    group_id: str
    generation_id: int

    @property
    def key(self) -> TimerKey:
        return ("sync", self.group_id)


@dataclass(frozen=True, slots=True)
class RetentionTimer:
    """`offsets.retention.check.interval.ms` passed."""

    @property
    def key(self) -> TimerKey:
        return ("retention",)


Timer = SessionTimer | InitialJoinTimer | JoinTimer | SyncTimer | RetentionTimer
