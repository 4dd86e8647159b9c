"""The timers of a consumer group, besides those in kwire.groups.timers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.coordinators.contract.effects import TimerKey

MayDescribe = Callable[[str], bool]
"""Whether the client may see a topic."""


@dataclass(frozen=True, slots=True)
class ClassicJoinTimer:
    """A member of the classic protocol did not rejoin within its rebalance timeout."""

    group_id: str
    member_id: str

    @property
    def key(self) -> TimerKey:
        return ("join", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class ClassicSyncTimer:
    """A member of the classic protocol did not sync within its rebalance timeout after a join."""

    group_id: str
    member_id: str

    @property
    def key(self) -> TimerKey:
        return ("sync", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class PatternTimer:
    """Look up the topics of the group's patterns, after the response of a heartbeat.

    The rights of the client that sent the heartbeat limit the topics.
    """

    group_id: str
    may_describe: MayDescribe | None
    """None if the client may see all topics."""

    @property
    def key(self) -> TimerKey:
        return ("pattern", self.group_id)
