"""The streams kind of groups (KIP-1071): its requests, records and timers."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.streams_group_metadata import StreamsGroupMetadataKey
from kwire.codecs.messages.coordinator.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from kwire.codecs.messages.coordinator.streams_group_topology import StreamsGroupTopologyKey
from kwire.codecs.messages.streams_group_describe import DescribedGroup
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigning import AssigningKind
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.records import group_tombstone
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.kind import Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.streams import describing
from kwire.groups.streams.configuring import ConfiguredTopology, TopologyCache
from kwire.groups.streams.decision import (
    StreamsDecision,
    StreamsHeartbeatReply,
    StreamsPlan,
    StreamsRefusal,
)
from kwire.groups.streams.following import StreamsGroupRecord, follow
from kwire.groups.streams.group import STREAMS_TYPE, StreamsGroup
from kwire.groups.streams.heartbeat import StreamsHeartbeat, leave
from kwire.groups.streams.member import JOIN_EPOCH, StreamsMemberState
from kwire.groups.streams.records import (
    RECORDS,
    StreamsGroupEpoch,
    StreamsTargetEpoch,
    TopologyRecord,
)
from kwire.groups.streams.timers import InitialDelayTimer
from kwire.groups.streams.topology import InvalidTopology
from kwire.groups.surroundings import Surroundings
from kwire.groups.timers import GroupTimer, RebalanceTimer, SessionTimer

RETRY_MS = 1_000
"""Pause before a member is removed again whose tombstones could not be written."""


class StreamsKind(AssigningKind[StreamsGroup]):
    """Implements `kwire.groups.kind.GroupKind`."""

    group_class = StreamsGroup
    type_name = STREAMS_TYPE
    record_types: tuple[type[MachineRecord], ...] = RECORDS

    def __init__(self, groups: Groups, limits: GroupLimits, surroundings: Surroundings) -> None:
        super().__init__(groups, limits, surroundings)
        self._configurations = TopologyCache()

    def _decision(self, group: StreamsGroup, now_ms: int) -> StreamsDecision:
        return StreamsDecision(
            group, self._limits, self._surroundings, self._hashes, self._configurations, now_ms
        )

    # -- membership

    def heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """Decide StreamsGroupHeartbeat.  The reply is a StreamsHeartbeatReply."""
        group = self.find(request.group_id)
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(group, request, ticket, now_ms)
        is_new = group is None
        if group is None:
            refusal = self._why_not_create(request)
            if refusal is not None:
                return GroupEffects.reply(ticket, StreamsHeartbeatReply(refusal.response()))
            group = StreamsGroup(request.group_id)
        decision = self._decision(group, now_ms)
        other = self._groups.get(request.group_id)
        if isinstance(other, ClassicGroup):
            decision.append(group_tombstone(other.group_id))
        beat = StreamsHeartbeat(decision, request, client_id, client_host, is_new=is_new)
        return beat.decide(ticket)

    def _why_not_create(self, request: StreamsGroupHeartbeatRequest) -> StreamsRefusal | None:
        """Why a heartbeat cannot create the group, else None.  It may replace an empty classic
        group."""
        group_id, other = request.group_id, self._groups.get(request.group_id)
        joins = request.member_epoch == JOIN_EPOCH
        if other is None and joins:
            return None
        if other is None:
            message = f"Streams group {group_id} not found."
            return StreamsRefusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
        empty = isinstance(other, ClassicGroup) and other.check_delete() is ErrorCode.NONE
        return None if joins and empty else _not_streams(group_id)

    def _leave(
        self,
        group: StreamsGroup | None,
        request: StreamsGroupHeartbeatRequest,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        if group is not None:
            return leave(self._decision(group, now_ms), request, ticket)
        group_id = request.group_id
        refusal = _not_streams(group_id)
        if group_id not in self._groups:
            refusal = StreamsRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return GroupEffects.reply(ticket, StreamsHeartbeatReply(refusal.response()))

    def describe(self, group_id: str) -> DescribedGroup:
        group = self.find(group_id)
        if group is None:
            return describing.not_found(group_id, exists=group_id in self._groups)
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

    # -- the interface of a kind

    def apply(self, record: StreamsGroupRecord) -> None:
        group_id = record.key.group_id
        group = self.find(group_id)
        if group is None:
            if record.value is None:
                return
            # This replaces a simple group that offsets earlier in the log have created.
            group = self._groups[group_id] = StreamsGroup(group_id)
        if isinstance(record, StreamsGroupEpoch) and record.value is None:
            del self._groups[group_id]
            self._hashes.forget(group_id)
            self._configurations.forget(group_id)
        else:
            follow(group, record)

    def tombstones(self, group: StreamsGroup) -> list[MachineRecord]:
        """The records that delete a group without members."""
        group_id = group.group_id
        return [
            StreamsTargetEpoch(StreamsGroupTargetAssignmentMetadataKey(group_id), None),
            StreamsGroupEpoch(StreamsGroupMetadataKey(group_id), None),
            TopologyRecord(StreamsGroupTopologyKey(group_id), None),
        ]

    def loaded(self, group: StreamsGroup, now_ms: int) -> GroupEffects:
        decision = self._decision(group, now_ms)
        for member in group.members.values():
            decision.expect_heartbeat(member.member_id)
            if member.state is StreamsMemberState.UNREVOKED_TASKS:
                decision.expect_revocation(member)
        return decision.effects

    def timer_fired(self, group: StreamsGroup, timer: GroupTimer, now_ms: int) -> GroupEffects:
        decision = self._decision(group, now_ms)
        match timer:
            case SessionTimer(member_id=member_id):
                return _fence(decision, member_id, "was not heard of in time")
            case RebalanceTimer(member_id=member_id, member_epoch=epoch):
                member = group.members.get(member_id)
                if member is None or member.epoch != epoch:
                    return GroupEffects()
                return _fence(decision, member_id, f"did not leave epoch {epoch} in time")
            case InitialDelayTimer() if group.session.is_delayed:
                return self._end_delay(decision)
        return GroupEffects()  # a timer of another kind's group that this group has replaced

    def _end_delay(self, decision: StreamsDecision) -> GroupEffects:
        """End the delay: compute the first assignment for all members that have joined."""
        group = decision.group
        decision.end_delay()
        configured = self._configured(group)
        if group.members and configured is not None and not decision.is_put_off():
            plan = StreamsPlan(group.epoch, configured, group.assignment_configs)
            decision.compute_target(group.members, plan)
            soft = decision.effects.soft
            decision.effects.refused = lambda _: GroupEffects(
                soft=soft
            )  # the next heartbeat has it
        return decision.effects


def _not_streams(group_id: str) -> StreamsRefusal:
    return StreamsRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def _fence(decision: StreamsDecision, member_id: str, why: str) -> GroupEffects:
    if member_id in decision.group.members:
        decision.note(f"member {member_id} {why} and is out")
        decision.fence(member_id)
        timer = SessionTimer(decision.group_id, member_id)
        again = (timer.key, timer, RETRY_MS)
        decision.effects.refused = lambda _: GroupEffects(timers=[again])
    return decision.effects
