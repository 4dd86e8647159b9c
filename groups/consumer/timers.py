"""What a consumer group waits for, beside sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.coordinators.contract.effects import TimerKey

MayDescribe = Callable[[str], bool]
"""Whether who asked may know of a topic."""


@dataclass(frozen=True, slots=True)
class RebalanceTimer:
    """The rebalance timeout passed while a member still had to give up partitions."""

    group_id: str
    member_id: str
    member_epoch: int

    @property
    def key(self) -> TimerKey:
        return rebalance_key(self.group_id, self.member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """Whatever the member's epoch is."""
    return ("rebalance", group_id, member_id)


@dataclass(frozen=True, slots=True)
class ClassicJoinTimer:
    """The rebalance timeout passed since a member of the classic protocol was told to join anew."""

    group_id: str
    member_id: str

    @property
    def key(self) -> TimerKey:
        return ("join", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class ClassicSyncTimer:
    """The rebalance timeout passed since such a member joined, and it has not synced."""

    group_id: str
    member_id: str

    @property
    def key(self) -> TimerKey:
        return ("sync", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class PatternTimer:
    """The topics that match the group's patterns are to be found, behind the heartbeat's reply.

    By the rights of the member whose heartbeat it was.
    """

    group_id: str
    may_describe: MayDescribe | None
    """None: everything may be known."""

    @property
    def key(self) -> TimerKey:
        return ("pattern", self.group_id)
