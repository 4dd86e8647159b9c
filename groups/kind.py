"""A kind of groups: its records and its clock.  Its requests are methods of each kind's own."""

from __future__ import annotations

from typing import Any, Protocol

from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.effects import Effects
from kwire.groups.group import Group
from kwire.groups.timers import GroupTimer


class Kind(Protocol):
    """What the machine asks of the kind that a group or a record is of."""

    type_name: str

    record_types: tuple[type[MachineRecord], ...]
    """Those that say what a group of this kind is."""

    def apply(self, record: Any) -> None:  # noqa: ANN401 - of its record_types
        """Have the machine's groups follow one of its records."""

    def tombstones(self, group: Any) -> list[MachineRecord]:  # noqa: ANN401 - of its kind
        """The records that delete a group, behind those that delete its offsets."""

    def loaded(self, group: Any, now_ms: int) -> Effects:  # noqa: ANN401 - of its kind
        """All records have been applied: the sessions of its members begin."""

    def unloaded(self, group: Any, now_ms: int) -> Effects:  # noqa: ANN401 - of its kind
        """The partition is led elsewhere: who waits shall look for its coordinator."""

    def due(self, group: Any, timer: GroupTimer, now_ms: int) -> Effects:  # noqa: ANN401 - its own
        """A timer of a group has come due."""

    def committed(self, group: Any, member_id: str, effects: Effects) -> None:  # noqa: ANN401 - its
        """A member commits offsets, which shows that it is alive."""


Groups = dict[str, Group]
"""The groups of one partition by id, of all kinds."""
