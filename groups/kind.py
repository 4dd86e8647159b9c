"""The interface of a kind of groups: records and timers.  Requests are methods of each kind."""

from __future__ import annotations

from typing import Any, Protocol

from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.effects import GroupEffects
from kwire.groups.group import Group
from kwire.groups.timers import GroupTimer


class GroupKind(Protocol):
    """The methods that the machine calls for a group or a record of this kind."""

    type_name: str

    record_types: tuple[type[MachineRecord], ...]
    """The records that store a group of this kind."""

    def apply(self, record: Any) -> None:  # noqa: ANN401 - of its record_types
        """Apply one of this kind's records to the machine's groups."""

    def tombstones(self, group: Any) -> list[MachineRecord]:  # noqa: ANN401 - of its kind
        """The records that delete a group; the caller writes tombstones of its offsets before."""

    def loaded(self, group: Any, now_ms: int) -> GroupEffects:  # noqa: ANN401 - of its kind
        """Effects after the last record was applied: the sessions of the members start."""

    def unloaded(self, group: Any, now_ms: int) -> GroupEffects:  # noqa: ANN401 - of its kind
        """Effects when another broker leads the partition: parked requests get an error."""

    def timer_fired(self, group: Any, timer: GroupTimer, now_ms: int) -> GroupEffects:  # noqa: ANN401 - its own
        """Effects of a timer of a group that fires."""

    def member_committed(self, group: Any, member_id: str, effects: GroupEffects) -> None:  # noqa: ANN401 - its
        """Add to `effects` that a member commits offsets, which shows that it is alive."""


Groups = dict[str, Group]
"""The groups of one partition, of all kinds, by id."""
