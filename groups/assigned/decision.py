"""A decision about one assigned group, while it is made.

Records of the decision change nothing until they are applied.  So the methods get what the current
request changes as arguments: the member that it updates, and the next epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.group import AssignedGroup, M, T
from kwire.groups.assigned.member import MemberState
from kwire.groups.assigned.records import GroupEpoch, RecordRoles, TargetAssignment, TargetEpoch
from kwire.groups.assigned.target import MemberTarget, may_be_computed
from kwire.groups.decision import GroupDecision
from kwire.groups.effects import GroupEffects
from kwire.groups.limits import GroupLimits
from kwire.groups.metadata_hash import MetadataHashes
from kwire.groups.surroundings import AssignedSettings, Surroundings
from kwire.groups.timers import RebalanceTimer, rebalance_key

G = TypeVar("G", bound=AssignedGroup[Any, Any])


class AssignedDecision(GroupDecision, ABC, Generic[G, M, T]):
    """The current group, and the effects collected so far."""

    ROLES: ClassVar[RecordRoles]

    settings: AssignedSettings
    is_new = False
    """Whether the decision creates the group."""

    def __init__(
        self,
        group: G,
        limits: GroupLimits,
        surroundings: Surroundings,
        hashes: MetadataHashes,
        now_ms: int,
    ) -> None:
        """Begin a decision about `group` at `now_ms`, with the group's present settings."""
        super().__init__(group.group_id, limits, now_ms, GroupEffects())
        self.group = group
        self.surroundings = surroundings
        self.hashes = hashes
        self.settings = self.read_settings()

    @abstractmethod
    def read_settings(self) -> AssignedSettings:
        """The settings of the group, in its kind."""

    def append(self, *records: MachineRecord) -> None:
        self.effects.records += records

    # -- timers

    def expect_heartbeat(self, member: M) -> None:
        """Restart the member's session; the member is removed if it sends nothing in that time."""
        self.begin_session(member.member_id, self.settings.session_timeout_ms)

    def await_revocation(self, member: M) -> None:
        """Set or cancel the timer that removes a member which does not give up what it must."""
        if member.state is MemberState.UNREVOKED:
            timer = RebalanceTimer(self.group_id, member.member_id, member.epoch)
            self.set_timer(timer, member.rebalance_timeout_ms)
        else:
            self.end_revocation(member.member_id)

    def end_revocation(self, member_id: str) -> None:
        self.cancel_timer(rebalance_key(self.group_id, member_id))

    def cancel_timers(self, member_id: str) -> None:
        """Cancel all timers of a member that leaves."""
        self.end_session(member_id)

    # -- the epoch

    def metadata_hash(self, topic_names: frozenset[str]) -> int:
        return self.hashes.of_group(self.group_id, topic_names, self.surroundings.image)

    def next_epoch(self, metadata_hash: int, *more: object) -> int:
        """Begin the group's next epoch, which needs a new target assignment; return the epoch.

        `more` are the further fields of the kind's GroupEpoch record.
        """
        epoch = self.group.epoch + 1
        self.append(self.epoch_record(epoch, metadata_hash, *more))
        self.begin_rebalance("what the members subscribe to, or its partitions, changed")
        self.note(f"epoch {epoch} begins")
        return epoch

    def epoch_record(self, *fields: object) -> GroupEpoch[Any, Any]:
        role = self.ROLES.epoch
        return role.of(self.group_id, value=role.VALUE(*fields))

    # -- the target assignment

    def members_with(self, updated: M) -> Mapping[str, M]:
        """The group's members after the request, which updates this member."""
        return {**self.group.members, updated.member_id: updated}

    def is_target_delayed(self) -> bool:
        """Whether the assignment interval delays the next target assignment."""
        interval_ms = self.settings.assignment_interval_ms
        return not may_be_computed(self.group.target_timestamp_ms, interval_ms, self.now_ms)

    def target(self, updated: M, epoch: int) -> MemberTarget[T]:
        """The member's target; a new target assignment of the group is computed if it is due.

        `epoch` is the group's epoch after the request.
        """
        if self.group.target_epoch >= epoch or self.is_target_delayed():
            return self.last_target(updated)
        computed = self.compute_target(self.members_with(updated), epoch)
        value = self.target_value(computed[updated.member_id])
        return MemberTarget(epoch, self.group.read_target(value))

    def last_target(self, member: M) -> MemberTarget[T]:
        """The member's target that was computed last."""
        return MemberTarget(self.group.target_epoch, self.group.target_of(member.member_id))

    def compute_target(self, members: Mapping[str, M], epoch: int) -> Mapping[str, T]:
        """Compute a target assignment, and add the records of what it changes."""
        computed = self.assign(members)
        for member_id, target in computed.items():
            if not self.is_unchanged(self.target_before(member_id), target):
                self.append(self.target_record(member_id, target))
        self.append(self.target_epoch_record(epoch, self.now_ms))
        return computed

    def target_before(self, member_id: str) -> T | None:
        """The target of a member that was computed last; None if there was none."""
        target: T | None = self.group.target.get(member_id)
        return target

    @abstractmethod
    def assign(self, members: Mapping[str, M]) -> Mapping[str, T]:
        """The target of each member id, in the order in which Apache Kafka writes the records."""

    @staticmethod
    @abstractmethod
    def is_unchanged(before: T | None, after: T) -> bool:
        """Whether a target needs no record.  `before`: the last one, None if there was none."""

    @staticmethod
    @abstractmethod
    def target_value(target: T) -> Any:  # noqa: ANN401 - of the kind's TargetAssignment record
        """The value of the record of a target."""

    def target_record(self, member_id: str, target: T) -> TargetAssignment[Any, Any]:
        value = self.target_value(target)
        return self.ROLES.target.of(self.group_id, member_id, value=value)

    def target_epoch_record(self, epoch: int, computed_ms: int) -> TargetEpoch[Any, Any]:
        role = self.ROLES.target_epoch
        return role.of(self.group_id, value=role.VALUE(epoch, computed_ms))

    # -- leaving

    def note_empty(self, epoch: int) -> None:
        """Record that the group has no members in its new epoch, so its target is up to date.

        The record names no time, so the assignment interval does not delay the next target.
        """
        self.append(self.target_epoch_record(epoch, 0))

    def forget_member(self, member_id: str) -> None:
        """Add the tombstones of a member, and cancel its timers."""
        roles = self.ROLES
        for role in (roles.current, roles.target, roles.metadata):
            self.append(role.tombstone(self.group_id, member_id))
        self.cancel_timers(member_id)
