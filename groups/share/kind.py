"""The share kind of groups (KIP-932): its requests, records and timers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import assert_never

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.codecs.messages.coordinator.share_group_metadata import ShareGroupMetadataKey
from kwire.codecs.messages.coordinator.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
)
from kwire.codecs.messages.coordinator.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
)
from kwire.codecs.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.codecs.messages.share_group_describe import DescribedGroup
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigning import AssigningKind, follow_target
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.share import describing
from kwire.groups.share.decision import ShareDecision, ShareHeartbeatReply, ShareRefusal
from kwire.groups.share.group import FIRST_EPOCH, SHARE_TYPE, ShareGroup
from kwire.groups.share.heartbeat import ShareHeartbeat, leave
from kwire.groups.share.initializing import NOTHING, StateTopicPartitions, StateTopics
from kwire.groups.share.member import JOIN_EPOCH, ShareGroupMember
from kwire.groups.share.offsets import (
    NOT_EMPTY,
    OffsetAlteration,
    OffsetDeletion,
    RequestedOffsets,
    alteration,
    deletion,
)
from kwire.groups.share.records import (
    RECORDS,
    ShareCurrentAssignment,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareTargetAssignment,
    ShareTargetEpoch,
    StatePartitions,
)
from kwire.groups.timers import GroupTimer, SessionTimer

ShareGroupRecord = (
    ShareMemberMetadata
    | ShareGroupEpoch
    | ShareTargetEpoch
    | ShareTargetAssignment
    | ShareCurrentAssignment
    | StatePartitions
)

RETRY_MS = 1_000
"""Pause before a member is removed again whose tombstones could not be written."""


class ShareKind(AssigningKind[ShareGroup]):
    """Implements `kwire.groups.kind.GroupKind`."""

    group_class = ShareGroup
    type_name = SHARE_TYPE
    record_types: tuple[type[MachineRecord], ...] = RECORDS

    def _decision(self, group: ShareGroup, now_ms: int) -> ShareDecision:
        return ShareDecision(group, self._limits, self._surroundings, self._hashes, now_ms)

    # -- membership

    def heartbeat(
        self,
        request: ShareGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """Decide ShareGroupHeartbeat.  The reply is a ShareHeartbeatReply."""
        group = self.find(request.group_id)
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(group, request, ticket, now_ms)
        if group is None:
            if request.group_id in self._groups:
                return _not_found(ticket, f"Group {request.group_id} is not a share group.")
            if request.member_epoch != JOIN_EPOCH:
                return _not_found(ticket, f"Share group {request.group_id} not found.")
            group = ShareGroup(request.group_id)
        decision = self._decision(group, now_ms)
        return ShareHeartbeat(decision, request, client_id, client_host).decide(ticket)

    def _leave(
        self,
        group: ShareGroup | None,
        request: ShareGroupHeartbeatRequest,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        if group is not None:
            return leave(self._decision(group, now_ms), request, ticket)
        what = "is not a share group" if request.group_id in self._groups else "not found"
        return _not_found(ticket, f"Group {request.group_id} {what}.")

    def describe(self, group_id: str) -> DescribedGroup:
        group = self.find(group_id)
        if group is None:
            return describing.not_found(group_id, exists=group_id in self._groups)
        return describing.described(group, self._surroundings.image)

    # -- state that the share coordinator stores

    def initialized(
        self, group_id: str, topics: StateTopicPartitions, ticket: Ticket
    ) -> GroupEffects:
        """Record that `topics` are initialized, except those deleted in the meantime."""
        deleted = topics.partitions.keys() - self._surroundings.image.names_by_id.keys()
        existing = topics.without(deleted)
        return self._change_state_topics(
            group_id, lambda state: state.without(deleted).with_initialized(existing), ticket
        )

    def not_initialized(
        self, group_id: str, topics: StateTopicPartitions, ticket: Ticket
    ) -> GroupEffects:
        """Record that `topics` could not be initialized; the next heartbeat asks again."""
        return self._change_state_topics(
            group_id, lambda state: state.with_refused(topics.partitions), ticket
        )

    def _change_state_topics(
        self, group_id: str, change: Callable[[StateTopics], StateTopics], ticket: Ticket
    ) -> GroupEffects:
        effects = GroupEffects.reply(ticket, None)
        group = self.find(group_id)
        if group is not None:
            changed = change(group.state_topics)
            if changed != group.state_topics:
                effects.records.append(changed.to_record(group_id))
        return effects

    def state_to_delete(self, group_id: str) -> StateTopicPartitions | None:
        """State that the share coordinator has, or may have, of a group without members."""
        group = self.find(group_id)
        if group is None or group.members:
            return None
        return group.state_topics.known

    # -- offsets

    def offsets_known(self, group_id: str) -> StateTopicPartitions:
        """Partitions for which the share coordinator stores offsets of the share group."""
        group = self.find(group_id)
        return NOTHING if group is None else group.state_topics.initialized

    def alter_offsets(
        self, group_id: str, wanted: RequestedOffsets, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        """Decide AlterShareGroupOffsets.  The reply is an OffsetAlteration.

        A group that does not exist is created.
        """
        group = self.find(group_id)
        if group is None and group_id not in self._groups:
            group = ShareGroup(group_id)
        refused = self._refused(group_id, group)
        if group is None or refused is not None:
            refusal = AlterShareGroupOffsetsResponse(0, *(refused or ()))
            return GroupEffects.reply(ticket, OffsetAlteration(refusal))
        decided = alteration(group, wanted, self._surroundings.image)
        effects = GroupEffects.reply(ticket, decided)
        if decided.topics != NOTHING:
            asked = group.state_topics.with_request(decided.topics, now_ms)
            effects.records.append(asked.to_record(group_id))
        return effects

    def delete_offsets(self, group_id: str, names: Iterable[str], ticket: Ticket) -> GroupEffects:
        """Decide DeleteShareGroupOffsets.  The reply is an OffsetDeletion."""
        group = self.find(group_id)
        refused = self._refused(group_id, group)
        if group is None or refused is not None:
            refusal = DeleteShareGroupOffsetsResponse(0, *(refused or ()))
            return GroupEffects.reply(ticket, OffsetDeletion(refusal))
        decided = deletion(group, names, self._surroundings.image)
        effects = GroupEffects.reply(ticket, decided)
        if decided.topics != NOTHING:
            forgetting = group.state_topics.deleting_state_of(decided.topics.names)
            effects.records.append(forgetting.to_record(group_id))
        return effects

    def offsets_deleted(
        self, group_id: str, topics: StateTopicPartitions, ticket: Ticket
    ) -> GroupEffects:
        """Record that the share coordinator has deleted its state of `topics`."""
        return self._change_state_topics(
            group_id, lambda state: state.without(topics.partitions), ticket
        )

    def _refused(self, group_id: str, group: ShareGroup | None) -> tuple[ErrorCode, str] | None:
        if group is None:
            what = "is not a share group" if group_id in self._groups else "not found"
            return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}."
        return (ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY) if group.members else None

    def topics_deleted(self, topic_ids: Collection[bytes]) -> Iterable[MachineRecord]:
        """The records that remove deleted topics from groups."""
        for group in self._groups.values():
            if isinstance(group, ShareGroup):
                left = group.state_topics.without(topic_ids)
                if left != group.state_topics:
                    yield left.to_record(group.group_id)

    # -- the interface of a kind

    def apply(self, record: ShareGroupRecord) -> None:
        group_id = record.key.group_id
        group = self.find(group_id)
        if group is None:
            if record.value is None:
                return
            group = self._groups[group_id] = ShareGroup(group_id)
        match record:
            case ShareGroupEpoch():
                self._apply_epoch(group, record)
            case ShareMemberMetadata():
                _apply_metadata(group, record)
            case ShareTargetEpoch(value=value):
                group.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
                group.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case ShareTargetAssignment():
                follow_target(group.target, record.key.member_id, record.value)
            case ShareCurrentAssignment():
                _apply_assignment(group, record)
            case StatePartitions():
                group.state_topics = StateTopics.of(record)
            case _:
                assert_never(record)

    def _apply_epoch(self, group: ShareGroup, record: ShareGroupEpoch) -> None:
        if record.value is None:
            del self._groups[group.group_id]
            self._hashes.forget(group.group_id)
        else:
            group.epoch = record.value.epoch
            group.metadata_hash = record.value.metadata_hash

    def tombstones(self, group: ShareGroup) -> list[MachineRecord]:
        """The records that delete a group without members."""
        group_id = group.group_id
        return [
            ShareTargetEpoch(ShareGroupTargetAssignmentMetadataKey(group_id), None),
            StatePartitions(ShareGroupStatePartitionMetadataKey(group_id), None),
            ShareGroupEpoch(ShareGroupMetadataKey(group_id), None),
        ]

    def loaded(self, group: ShareGroup, now_ms: int) -> GroupEffects:
        decision = self._decision(group, now_ms)
        for member_id in group.members:
            decision.expect_heartbeat(member_id)
        return decision.effects

    def timer_fired(self, group: ShareGroup, timer: GroupTimer, now_ms: int) -> GroupEffects:
        if not isinstance(timer, SessionTimer):
            return GroupEffects()  # a timer of another kind's group that this group has replaced
        decision = self._decision(group, now_ms)
        member = group.members.get(timer.member_id)
        if member is not None:
            decision.note(f"member {member.member_id} was not heard of in time and is out")
            decision.fence(member)
            again = (timer.key, timer, RETRY_MS)
            decision.effects.refused = lambda _: GroupEffects(timers=[again])
        return decision.effects


def _not_found(ticket: Ticket, message: str) -> GroupEffects:
    refusal = ShareRefusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
    return GroupEffects.reply(ticket, ShareHeartbeatReply(refusal.response()))


def _apply_metadata(group: ShareGroup, record: ShareMemberMetadata) -> None:
    member_id = record.key.member_id
    if record.value is None:
        group.members.pop(member_id, None)
    else:
        member = group.members.get(member_id) or ShareGroupMember(member_id)
        group.members[member_id] = member.with_metadata(record.value)


def _apply_assignment(group: ShareGroup, record: ShareCurrentAssignment) -> None:
    member_id = record.key.member_id
    member = group.members.get(member_id)
    if record.value is not None:
        group.members[member_id] = (member or ShareGroupMember(member_id)).with_assignment(
            record.value
        )
    elif member is not None:
        group.members[member_id] = member.without_assignment()
