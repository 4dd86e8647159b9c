"""The share kind of groups (KIP-932): its requests, records and timers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.codecs.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.codecs.messages.share_group_describe import DescribedGroup
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.kind import AssignedKind
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.share import describing
from kwire.groups.share.decision import ShareDecision, ShareHeartbeatReply
from kwire.groups.share.group import SHARE_TYPE, ShareGroup, topic_names_of
from kwire.groups.share.heartbeat import ShareHeartbeat
from kwire.groups.share.initializing import NOTHING, StateTopicPartitions, StateTopics
from kwire.groups.share.member import ShareGroupMember
from kwire.groups.share.offsets import (
    NOT_EMPTY,
    OffsetAlteration,
    OffsetDeletion,
    RequestedOffsets,
    alteration,
    deletion,
)
from kwire.groups.share.records import RECORDS, ROLES, StatePartitions
from kwire.groups.timers import GroupTimer, SessionTimer


class ShareKind(
    AssignedKind[ShareGroup, ShareGroupMember, ShareDecision, ShareGroupHeartbeatRequest]
):
    """Implements `kwire.groups.kind.GroupKind`."""

    type_name = SHARE_TYPE
    record_types: tuple[type[MachineRecord], ...] = RECORDS
    group_class = ShareGroup
    decision_class = ShareDecision
    heartbeat_class = ShareHeartbeat

    def reply(self, **fields: Any) -> ShareHeartbeatReply:  # noqa: ANN401 - see the base class
        return ShareHeartbeatReply(ShareGroupHeartbeatResponse(**fields))

    def remove(self, decision: ShareDecision, member: ShareGroupMember) -> None:
        """Remove a member; the next epoch assigns its partitions to the others."""
        decision.forget_member(member.member_id)
        left = [other for other in decision.group.members.values() if other is not member]
        epoch = decision.next_epoch(decision.metadata_hash(topic_names_of(left)))
        if not left:
            decision.note_empty(epoch)

    def tombstones(self, group: ShareGroup) -> list[MachineRecord]:
        """The records that delete a group without members."""
        roles = ROLES.target_epoch, StatePartitions, ROLES.epoch
        return [role.tombstone(group.group_id) for role in roles]

    def fire(self, decision: ShareDecision, timer: GroupTimer) -> None:
        if isinstance(timer, SessionTimer):  # no member has to give up anything in time
            super().fire(decision, timer)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return the description of a group, or its error if it is no share group."""
        try:
            return describing.described(self.existing(group_id), self._surroundings.image)
        except Refusal as refusal:
            return DescribedGroup(refusal.error, refusal.message, group_id)

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
        """Apply `change` to the group's partitions, and write a record if they differ.

        A group that no longer exists is ignored.  The reply is None.
        """
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
        group = ShareGroup(group_id)
        try:
            if group_id in self._groups:
                group = self._without_members(group_id)
        except Refusal as refusal:
            response = AlterShareGroupOffsetsResponse(0, refusal.error, refusal.message)
            return GroupEffects.reply(ticket, OffsetAlteration(response))
        decided = alteration(group, wanted, self._surroundings.image)
        effects = GroupEffects.reply(ticket, decided)
        if decided.topics != NOTHING:
            asked = group.state_topics.with_request(decided.topics, now_ms)
            effects.records.append(asked.to_record(group_id))
        return effects

    def delete_offsets(self, group_id: str, names: Iterable[str], ticket: Ticket) -> GroupEffects:
        """Decide DeleteShareGroupOffsets.  The reply is an OffsetDeletion."""
        try:
            group = self._without_members(group_id)
        except Refusal as refusal:
            response = DeleteShareGroupOffsetsResponse(0, refusal.error, refusal.message)
            return GroupEffects.reply(ticket, OffsetDeletion(response))
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

    def _without_members(self, group_id: str) -> ShareGroup:
        """The group, if it has no members.  Raises Refusal."""
        group = self.existing(group_id)
        if group.members:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY)
        return group

    def topics_deleted(self, topic_ids: Collection[bytes]) -> Iterable[MachineRecord]:
        """The records that remove deleted topics from groups."""
        for group in self._groups.values():
            if isinstance(group, ShareGroup):
                left = group.state_topics.without(topic_ids)
                if left != group.state_topics:
                    yield left.to_record(group.group_id)
