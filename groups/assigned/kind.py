"""A kind of assigned groups: its heartbeats, records and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.decision import G
from kwire.groups.assigned.following import follow
from kwire.groups.assigned.group import M
from kwire.groups.assigned.heartbeat import (
    AssignedHeartbeat,
    D,
    HeartbeatCaller,
    Q,
    unknown_member,
)
from kwire.groups.assigned.member import JOIN_EPOCH, MemberState
from kwire.groups.assigned.records import GroupEpoch
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.group import Group
from kwire.groups.kind import Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.metadata_hash import MetadataHashes
from kwire.groups.record_format import KeyedRecord
from kwire.groups.surroundings import Surroundings
from kwire.groups.timers import GroupTimer, RebalanceTimer, SessionTimer

RETRY_MS = 1_000
"""Pause before a member is removed again whose tombstones could not be written."""


class AssignedKind(ABC, Generic[G, M, D, Q]):
    """Implements `kwire.groups.kind.GroupKind`.

    The types in brackets are those of groups, members, decisions and heartbeat requests.
    """

    type_name: str
    record_types: tuple[type[MachineRecord], ...]
    group_class: type[G]
    decision_class: type[D]
    heartbeat_class: type[AssignedHeartbeat[D, Q, M]]

    def __init__(self, groups: Groups, limits: GroupLimits, surroundings: Surroundings) -> None:
        """`groups` are the machine's groups of all kinds."""
        self._groups = groups
        self._limits = limits
        self._surroundings = surroundings
        self._hashes = MetadataHashes()

    def decision(self, group: G, now_ms: int) -> D:
        """A new decision about a group."""
        return self.decision_class(group, self._limits, self._surroundings, self._hashes, now_ms)

    # -- find a group

    def find(self, group_id: str) -> G | None:
        """The group, or None if it does not exist or is of another kind."""
        group = self._groups.get(group_id)
        return group if isinstance(group, self.group_class) else None

    def existing(self, group_id: str) -> G:
        """The group.  Raises Refusal."""
        group = self.find(group_id)
        if group is not None:
            return group
        if group_id in self._groups:
            raise self.of_another_kind(group_id)
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    def of_another_kind(self, group_id: str) -> Refusal:
        message = f"Group {group_id} is not a {self.type_name} group."
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)

    # -- heartbeats

    def heartbeat(
        self, request: Q, caller: HeartbeatCaller, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        """Decide a heartbeat, which has been validated."""
        try:
            if request.member_epoch < JOIN_EPOCH:
                decision = self.decision(self.existing(request.group_id), now_ms)
                reply = self.leave(decision, request)
            else:
                decision = self._decision_about(request, now_ms)
                reply = self.beat(decision, request, caller)
        except Refusal as refusal:
            reply = self.reply(error_code=refusal.error, error_message=refusal.message)
            return GroupEffects.reply(ticket, reply)
        decision.reply(ticket, reply)
        return decision.effects

    def _decision_about(self, request: Q, now_ms: int) -> D:
        """Return a decision about the request's group; a join creates the group.

        Raises Refusal if the group does not exist, or is of a kind that cannot be replaced.
        """
        group_id = request.group_id
        group = self.find(group_id)
        if group is not None:
            return self.decision(group, now_ms)
        other = self._groups.get(group_id)
        if request.member_epoch != JOIN_EPOCH:
            if other is not None:
                raise self.of_another_kind(group_id)
            message = f"{self.type_name.capitalize()} group {group_id} not found."
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
        decision = self.decision(self.group_class(group_id), now_ms)
        decision.is_new = True
        if other is not None:
            self.take_over(decision, other)
        return decision

    def take_over(self, decision: D, other: Group) -> None:
        """Replace a group of another kind by the decision's new group.  Raises Refusal."""
        raise self.of_another_kind(other.group_id)

    def beat(self, decision: D, request: Q, caller: HeartbeatCaller) -> object:
        """Decide a heartbeat of a member that stays.  Returns the reply, raises Refusal."""
        return self.heartbeat_class(decision, request, caller).decide()

    def leave(self, decision: D, request: Q) -> object:
        """Decide a heartbeat of a member that leaves.  Returns the reply, raises Refusal."""
        member = decision.group.members.get(request.member_id)
        if member is None:
            raise unknown_member(decision.group, request.member_id)
        decision.note(f"member {request.member_id} leaves")
        self.remove(decision, member)
        return self.reply(member_id=request.member_id, member_epoch=request.member_epoch)

    @abstractmethod
    def reply(self, **fields: Any) -> object:  # noqa: ANN401 - of the kind's response
        """The reply to a heartbeat; these are the fields of the response."""

    @abstractmethod
    def remove(self, decision: D, member: M) -> None:
        """Remove a member; the next epoch assigns what it had to others."""

    # -- records

    def apply(self, record: KeyedRecord[Any, Any]) -> None:
        """Apply a record to its group; the first record creates the group.

        A tombstone of a group that does not exist is ignored.
        """
        group_id = record.key.group_id
        group = self.find(group_id)
        if group is None:
            if record.value is None:
                return
            # This replaces a simple group that offsets earlier in the log have created.
            group = self._groups[group_id] = self.group_class(group_id)
        if isinstance(record, GroupEpoch) and record.value is None:
            del self._groups[group_id]
            self.forget(group_id)
        else:
            follow(group, record)

    def forget(self, group_id: str) -> None:
        """Remove a deleted group from the caches."""
        self._hashes.forget(group_id)

    @abstractmethod
    def tombstones(self, group: G) -> list[MachineRecord]:
        """The records that delete a group; the caller writes tombstones of its offsets before."""

    # -- time

    def loaded(self, group: G, now_ms: int) -> GroupEffects:
        """Return the effects after a load: each member's session starts anew.

        A member that still has to give something up gets its revocation timeout again, too.
        """
        decision = self.decision(group, now_ms)
        for member in group.members.values():
            decision.expect_heartbeat(member)
            if member.state is MemberState.UNREVOKED:
                decision.await_revocation(member)
        return decision.effects

    def unloaded(self, group: G, now_ms: int) -> GroupEffects:
        """Return no effects: no request waits in such a group."""
        return GroupEffects()

    def member_committed(self, group: G, member_id: str, effects: GroupEffects) -> None:
        """A commit does not extend a session here: only heartbeats do."""

    def timer_fired(self, group: G, timer: GroupTimer, now_ms: int) -> GroupEffects:
        """Return the effects of a timer of the group that fires."""
        decision = self.decision(group, now_ms)
        self.fire(decision, timer)
        return decision.effects

    def fire(self, decision: D, timer: GroupTimer) -> None:
        """Decide about a timer: remove the member that was too late.

        A timer of another kind is ignored: it belongs to a group that this one has replaced.
        """
        match timer:
            case SessionTimer(member_id=member_id):
                self.fence(decision, member_id, "was not heard of in time")
            case RebalanceTimer(member_id=member_id, member_epoch=epoch):
                member = decision.group.members.get(member_id)
                if member is not None and member.epoch == epoch:
                    self.fence(decision, member_id, f"did not leave epoch {epoch} in time")

    def fence(self, decision: D, member_id: str, why: str) -> None:
        """Remove a member.  If the append fails, the session timer repeats this after RETRY_MS."""
        member = decision.group.members.get(member_id)
        if member is not None:
            decision.note(f"member {member_id} {why} and is out")
            self.remove(decision, member)
            timer = SessionTimer(decision.group_id, member_id)
            again = (timer.key, timer, RETRY_MS)
            decision.effects.refused = lambda _: GroupEffects(timers=[again])
