"""What a decision about a group comes to; see kwire.coordinators.contract.effects."""

from __future__ import annotations

from typing import Protocol

from kwire.coordinators.contract import effects as coordinator
from kwire.coordinators.contract.effects import Ticket, TimerKey
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.group import Group
from kwire.groups.timers import Timer

__all__ = ["Effects", "Soft", "Ticket", "TimerKey"]


class Soft(Protocol):
    """State that is not in records."""

    def settle(self, groups: dict[str, Group]) -> None:
        """Lay it over what the groups' records say."""


class Effects(coordinator.Effects[MachineRecord, Timer, Soft]):
    """`soft` is the session of a group as it is from now on."""

    __slots__ = ()
