"""Static members: a member with a group instance id may leave for a while and come back.

Its partitions or tasks wait for it until its session ends.  It comes back with a new member id, and
the new member takes the place of the old one without a new epoch of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.groups.assigned.committing import CommittingGroup
from kwire.groups.assigned.decision import AssignedDecision
from kwire.groups.assigned.group import M, T
from kwire.groups.assigned.heartbeat import AssignedHeartbeat, Q
from kwire.groups.assigned.member import JOIN_EPOCH, LEAVE_FOR_A_WHILE_EPOCH
from kwire.groups.assigned.target import MemberTarget


@dataclass(slots=True)
class StaticGroup(CommittingGroup[M, T]):
    """A group that may have static members."""

    static_members: dict[str, str] = field(default_factory=dict)
    """Group instance id -> member id."""

    def index(self, member: M) -> None:
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def unindex(self, member: M) -> None:
        """Undo `index`, unless the instance id belongs to another member by then."""
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def static_member(self, instance_id: str) -> M | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def static_target_of(self, member_id: str, instance_id: str | None) -> T:
        """The target of a member, or of the static member with the same instance id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target_of(member_id)


class StaticDecision(AssignedDecision[Any, M, T], Generic[M, T]):
    """A decision about a group that may have static members."""

    replaced: str | None = None
    """Id of the static member that the member of the request replaces."""
    replacing: str | None = None
    """Id of the member of the request, if it replaces a static member."""

    def replace_static_member(self, holder: M, member_id: str) -> M:
        """Replace a static member that comes back with another member id.  Returns the new one."""
        member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
        self.note(f"member {member_id} comes back as {holder.instance_id}")
        self.forget_member(holder.member_id)
        self.append(
            member.to_metadata(self.group_id),
            self.target_record(member_id, self.group.target_of(holder.member_id)),
            member.to_assignment(self.group_id),
        )
        self.replaced, self.replacing = holder.member_id, member_id
        return member

    def leave_for_a_while(self, member: M) -> None:
        """Keep the member until its session ends; no other member gets its partitions or tasks."""
        self.note(f"member {member.member_id} leaves for a while")
        away = replace(
            member,
            epoch=LEAVE_FOR_A_WHILE_EPOCH,
            assigned=member.assigned_in_no_epoch,
            revoking=member.NOTHING,
        )
        self.append(away.to_assignment(self.group_id))

    def members_with(self, updated: M) -> Mapping[str, M]:
        """Return the members after the request, without a static member that was replaced."""
        members: dict[str, M] = dict(self.group.members)
        if self.replaced is not None:
            del members[self.replaced]
        members[updated.member_id] = updated
        return members

    def target_before(self, member_id: str) -> T | None:
        """The last target of a member, or of the static member that it replaces."""
        known = self.replaced if member_id == self.replacing else member_id
        return super().target_before(member_id if known is None else known)

    def last_target(self, member: M) -> MemberTarget[T]:
        last: T = self.group.static_target_of(member.member_id, member.instance_id)
        return MemberTarget(self.group.target_epoch, last)


class StaticHeartbeat(AssignedHeartbeat[Any, Q, M]):
    """A heartbeat to a group that may have static members."""

    group: StaticGroup[M, Any]

    def find_or_create_any(self, instance_id: str | None) -> M:
        """The member that sends the heartbeat, static or not, as it was before.

        Raises Refusal.
        """
        if instance_id is None:
            return self.find_or_create()
        return self._find_or_create_static(instance_id)

    def _find_or_create_static(self, instance_id: str) -> M:
        """Return the static member that sends the heartbeat, as it was before.

        Raises Refusal if another member that has not left has the instance id.
        """
        member_id = self.request.member_id
        if self.request.member_epoch != JOIN_EPOCH:
            member = static_member(self.group, instance_id, member_id)
            self.check_epoch(member)
            return member
        holder = self.group.static_member(instance_id)
        if holder is None:
            self.decision.note(f"member {member_id} joins as {instance_id}")
            known: M | None = self.group.members.get(member_id)
            new: M = self.group.member_class(member_id) if known is None else known
            return new
        if holder.epoch != LEAVE_FOR_A_WHILE_EPOCH and not self.is_replaceable(holder):
            raise Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {holder.member_id} member.",
            )
        replaced: M = self.decision.replace_static_member(holder, member_id)
        return replaced

    def is_replaceable(self, holder: M) -> bool:
        """Whether a new member may take the place of a static member that has not left."""
        return False


def static_member(group: StaticGroup[M, Any], instance_id: str, member_id: str) -> M:
    """The static member that sends a request.  Raises Refusal if its instance id is another's."""
    holder = group.static_member(instance_id)
    if holder is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}.",
        )
    return holder
