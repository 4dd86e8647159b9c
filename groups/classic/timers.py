"""The timers of a classic group, besides sessions."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.coordinators.contract.effects import TimerKey


@dataclass(frozen=True, slots=True)
class InitialJoinTimer:
    """A new group has waited `delay_ms` for more members; it may wait `remaining_ms` longer."""

    group_id: str
    delay_ms: int
    remaining_ms: int

    @property
    def key(self) -> TimerKey:
        return ("join", self.group_id)


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """The rebalance timeout has passed, and some members have not rejoined."""

    group_id: str

    @property
    def key(self) -> TimerKey:
        return ("join", self.group_id)


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """The rebalance timeout has passed, and some members of the generation have not synced."""

    group_id: str
    generation_id: int

    @property
    def key(self) -> TimerKey:
        return ("sync", self.group_id)
