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
from kwire.groups.assigned.kind import AssignedKind
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.records import group_tombstone
from kwire.groups.effects import GroupEffects
from kwire.groups.group import Group
from kwire.groups.kind import Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.streams import describing
from kwire.groups.streams.configuring import ConfiguredTopology, TopologyCache
from kwire.groups.streams.decision import StreamsDecision, StreamsHeartbeatReply, StreamsPlan
from kwire.groups.streams.group import STREAMS_TYPE, StreamsGroup
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
        """Decide a heartbeat of a member that leaves; it may request a shutdown of all members."""
        session = decision.group.session
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
        return describing.described(group, configured)

    def _configured(self, group: StreamsGroup) -> ConfiguredTopology | None:
        """The group's configured topology, or None if it is invalid with the current topics."""
        if group.topology is None:
            return None
        try:
            image = self._surroundings.image
            return self._configurations.of_group(group.group_id, group.topology, image)
        except InvalidTopology:
            return None

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
