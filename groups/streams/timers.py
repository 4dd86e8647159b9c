"""The timers of a streams group, besides those in kwire.groups.timers."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.coordinators.contract.effects import TimerKey


@dataclass(frozen=True, slots=True)
class InitialDelayTimer:
    """`group.streams.initial.rebalance.delay.ms` has passed since the first member joined."""

    group_id: str

    @property
    def key(self) -> TimerKey:
        return ("initial", self.group_id)
