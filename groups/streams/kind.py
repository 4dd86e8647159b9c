"""The streams kind of groups (KIP-1071): its requests, records and timers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_describe import DescribedGroup
from kwire.codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.heartbeat import unknown_member
from kwire.groups.assigned.kind import AssignedKind
from kwire.groups.assigned.member import LEAVE_FOR_A_WHILE_EPOCH
from kwire.groups.assigned.static_members import static_member
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.records import group_tombstone
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.group import Group
from kwire.groups.kind import Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.streams import describing
from kwire.groups.streams.configuring import ConfiguredTopology, TopologyCache
from kwire.groups.streams.decision import (
    StreamsDecision,
    StreamsHeartbeatReply,
    StreamsPlan,
)
from kwire.groups.streams.group import (
    NO_DESCRIPTIONS,
    NO_EPOCH,
    STREAMS_TYPE,
    UNCERTAIN_EPOCH,
    DescriptionEpochs,
    StreamsGroup,
)
from kwire.groups.streams.heartbeat import StreamsHeartbeat
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.records import RECORDS, ROLES, TopologyRecord
from kwire.groups.streams.timers import InitialDelayTimer
from kwire.groups.streams.topology import InvalidTopology
from kwire.groups.surroundings import Surroundings
from kwire.groups.timers import GroupTimer


class StreamsKind(
    AssignedKind[StreamsGroup, StreamsMember, StreamsDecision, StreamsGroupHeartbeatRequest]
):
    """Implements `kwire.groups.kind.GroupKind`."""

    type_name = STREAMS_TYPE
    record_types: tuple[type[MachineRecord], ...] = RECORDS
    group_class = StreamsGroup
    decision_class = StreamsDecision
    heartbeat_class = StreamsHeartbeat

    def __init__(self, groups: Groups, limits: GroupLimits, surroundings: Surroundings) -> None:
        super().__init__(groups, limits, surroundings)
        self._configurations = TopologyCache()

    def decision(self, group: StreamsGroup, now_ms: int) -> StreamsDecision:
        decision = super().decision(group, now_ms)
        decision.configurations = self._configurations
        return decision

    def leave(self, decision: StreamsDecision, request: StreamsGroupHeartbeatRequest) -> object:
        """Decide a heartbeat of a member that leaves, for a while if it is static and says so.

        It may request a shutdown of all members.
        """
        session = decision.group.session
        if request.instance_id is not None:
            member = static_member(decision.group, request.instance_id, request.member_id)
            if request.member_epoch == LEAVE_FOR_A_WHILE_EPOCH:
                decision.leave_for_a_while(member)
                return self.reply(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.shutdown_application and session.shutdown_by is None:
            decision.set_session(replace(session, shutdown_by=request.member_id))
        return super().leave(decision, request)

    def reply(self, **fields: Any) -> StreamsHeartbeatReply:  # noqa: ANN401 - see the base class
        return StreamsHeartbeatReply(StreamsGroupHeartbeatResponse(**fields))

    def take_over(self, decision: StreamsDecision, other: Group) -> None:
        """Replace an empty classic group.  Raises Refusal for others."""
        if not isinstance(other, ClassicGroup) or other.check_delete() is not ErrorCode.NONE:
            raise self.of_another_kind(other.group_id)
        decision.append(group_tombstone(other.group_id))

    def remove(self, decision: StreamsDecision, member: StreamsMember) -> None:
        """Remove a member; the next epoch assigns its tasks to the others."""
        group = decision.group
        decision.forget_member(member.member_id)
        epoch = decision.next_epoch_of(
            group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        )
        if group.members.keys() <= {member.member_id}:
            decision.note_empty(epoch)

    def tombstones(self, group: StreamsGroup) -> list[MachineRecord]:
        """The records that delete a group without members."""
        roles = ROLES.target_epoch, ROLES.epoch, TopologyRecord
        return [role.tombstone(group.group_id) for role in roles]

    def forget(self, group_id: str) -> None:
        super().forget(group_id)
        self._configurations.forget(group_id)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return the description of a group, or its error if it is no streams group."""
        try:
            group = self.existing(group_id)
        except Refusal as refusal:
            return DescribedGroup(refusal.error, refusal.message, group_id)
        configured = self._configured(group) if group.session.is_configured else None
        assignor_name = self._surroundings.streams_settings(group_id).assignor_name
        return describing.described(group, configured, assignor_name)

    def _configured(self, group: StreamsGroup) -> ConfiguredTopology | None:
        """The group's configured topology, or None if it is invalid with the current topics."""
        if group.topology is None:
            return None
        try:
            image = self._surroundings.image
            return self._configurations.of_group(group.group_id, group.topology, image)
        except InvalidTopology:
            return None

    # -- descriptions of topologies, which a plug-in of the broker stores (KIP-1331)

    def description_epochs(self, group_id: str) -> DescriptionEpochs:
        """Which descriptions of the group's topology the plug-in has; none without a group."""
        group = self.find(group_id)
        if group is None:
            return NO_DESCRIPTIONS
        return group.description_epochs

    def check_description(self, group_id: str, member_id: str, epoch: int) -> Refusal | None:
        """The refusal of a description that a member sends for a topology epoch, else None."""
        try:
            group = self.existing(group_id)
            if member_id not in group.members:
                raise unknown_member(group, member_id)
        except Refusal as refusal:
            return refusal
        if epoch == group.topology_epoch:
            return None
        message = (
            f"Topology epoch {epoch} does not match the group's current topology epoch "
            f"{group.topology_epoch}."
        )
        return Refusal(ErrorCode.INVALID_REQUEST, message)

    def expect_description_call(
        self, group_id: str, ticket: Ticket, now_ms: int, *, to_delete: bool
    ) -> GroupEffects:
        """Write to the log that the plug-in is about to be called, and may then have a description.

        The reply is whether it may be called.  It may not if the group is gone.  With `to_delete`,
        it also may not if the group has members, or certainly no description.
        """
        group = self.find(group_id)
        if group is None or (to_delete and (group.members or not group.has_description)):
            return GroupEffects.reply(ticket, False)
        decision = self.decision(group, now_ms)
        if group.stored_description_epoch != UNCERTAIN_EPOCH:
            decision.note_description(stored=UNCERTAIN_EPOCH)
        decision.reply(ticket, True)
        return decision.effects

    def description_answered(
        self, group_id: str, epoch: int, ticket: Ticket, now_ms: int, *, stored: bool
    ) -> GroupEffects:
        """Note that the plug-in stored the description of a topology epoch, or refused it for good.

        The reply is NONE, or the error.
        """
        group = self.find(group_id)
        if group is None:
            return GroupEffects.reply(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        decision = self.decision(group, now_ms)
        if not stored:
            decision.note_description(failed=max(group.failed_description_epoch, epoch))
        elif group.has_description:
            decision.note_description(stored=max(group.stored_description_epoch, epoch))
        else:
            # A deletion ended in the meantime.  The plug-in may have stored this description before
            # or after it.
            decision.note_description(stored=UNCERTAIN_EPOCH)
        decision.reply(ticket, ErrorCode.NONE)
        return decision.effects

    def description_deleted(self, group_id: str, ticket: Ticket, now_ms: int) -> GroupEffects:
        """Write to the log that the plug-in deleted the group's description.  The reply is NONE.

        If the plug-in stored a description in the meantime, it may have one still.
        """
        group = self.find(group_id)
        if group is None or not group.has_description:
            return GroupEffects.reply(ticket, ErrorCode.NONE)
        decision = self.decision(group, now_ms)
        was_uncertain = group.stored_description_epoch == UNCERTAIN_EPOCH
        decision.note_description(stored=NO_EPOCH if was_uncertain else UNCERTAIN_EPOCH)
        decision.reply(ticket, ErrorCode.NONE)
        return decision.effects

    # -- the delay of the first assignment

    def fire(self, decision: StreamsDecision, timer: GroupTimer) -> None:
        """Decide about a timer: compute the delayed first assignment, or as other groups."""
        if isinstance(timer, InitialDelayTimer):
            if decision.group.session.is_delayed:
                self._end_delay(decision)
        else:
            super().fire(decision, timer)

    def _end_delay(self, decision: StreamsDecision) -> None:
        """End the delay: compute the first assignment for all members that have joined."""
        group = decision.group
        decision.end_delay()
        configured = self._configured(group)
        if group.members and configured is not None and not decision.is_target_delayed():
            decision.plan = StreamsPlan(configured, group.assignment_configs)
            decision.compute_target(group.members, group.epoch)
            soft = decision.effects.soft
            # If the append fails, the next heartbeat computes the assignment.
            decision.effects.refused = lambda _: GroupEffects(soft=soft)
