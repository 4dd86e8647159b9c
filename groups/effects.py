"""What a decision about a group comes to; see kwire.coordinator.effects."""

from __future__ import annotations

from kwire.coordinator import effects as coordinator
from kwire.coordinator.effects import Ticket, TimerKey
from kwire.coordinator.machine import MachineRecord
from kwire.groups.group import Group
from kwire.groups.timers import Timer

__all__ = ["Effects", "Ticket", "TimerKey"]


class Effects(coordinator.Effects[MachineRecord, Timer, Group]):
    """`soft` is the session of a group as it is from now on."""

    __slots__ = ()
