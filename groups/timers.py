"""The timers of groups.

A timer is identified by its `key`: setting a timer replaces the one with the same key.  When it
fires, the driver passes it to the machine, which checks whether it still matters.  Each kind of
groups has more timers of its own.
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
    """A member, or a pending member id, sent no heartbeat within its session timeout."""

    group_id: str
    member_id: str

    @property
    def key(self) -> TimerKey:
        return ("session", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class RebalanceTimer:
    """A member did not give up partitions within its rebalance timeout.

    Used by consumer and streams groups, whose members have epochs.
    """

    group_id: str
    member_id: str
    member_epoch: int

    @property
    def key(self) -> TimerKey:
        return rebalance_key(self.group_id, self.member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The key of a member's RebalanceTimer in any epoch."""
    return ("rebalance", group_id, member_id)


@dataclass(frozen=True, slots=True)
class RetentionTimer:
    """`offsets.retention.check.interval.ms` has passed."""

    @property
    def key(self) -> TimerKey:
        return ("retention",)


Timer = GroupTimer | RetentionTimer
