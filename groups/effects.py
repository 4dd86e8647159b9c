"""The effects of a decision about a group; see kwire.coordinators.contract.effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kwire.coordinators.contract import effects as coordinator
from kwire.coordinators.contract.effects import Ticket, TimerKey
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.group import Group
from kwire.groups.timers import Timer

__all__ = ["GroupEffects", "Rebalance", "SoftState", "Ticket", "TimerKey"]


class SoftState(Protocol):
    """New state of a group that is not in records."""

    def install(self, groups: dict[str, Group]) -> None:
        """Set this state in `groups`, after the records have been applied."""


class Rebalance(NamedTuple):
    """The begin of a rebalance."""

    group_id: str
    reason: str
    """For the operator, such as `member a-1 leaves (poll timed out)`."""
    at_ms: int


@dataclass(slots=True)
class GroupEffects(coordinator.Effects[MachineRecord, Timer, SoftState]):
    """`soft` is the new state of one group that is not in the log."""

    rebalance: Rebalance | None = None
    """The rebalance that begins with these effects, if any."""
