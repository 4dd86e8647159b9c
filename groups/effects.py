"""The effects of a decision about a group; see kwire.coordinators.contract.effects."""

from __future__ import annotations

from typing import Protocol

from kwire.coordinators.contract import effects as coordinator
from kwire.coordinators.contract.effects import Ticket, TimerKey
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.group import Group
from kwire.groups.timers import Timer

__all__ = ["GroupEffects", "SoftState", "Ticket", "TimerKey"]


class SoftState(Protocol):
    """New state of a group that is not in records."""

    def install(self, groups: dict[str, Group]) -> None:
        """Set this state in `groups`, after the records have been applied."""


class GroupEffects(coordinator.Effects[MachineRecord, Timer, SoftState]):
    """`soft` is the new state of one group that is not in the log."""

    __slots__ = ()
