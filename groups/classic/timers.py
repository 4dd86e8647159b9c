"""What a classic group waits for, beside sessions."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.coordinators.contract.effects import TimerKey


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
