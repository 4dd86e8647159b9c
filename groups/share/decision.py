"""A decision about one share group while it is being made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
)
from kwire.codecs.messages.coordinator.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
)
from kwire.codecs.messages.coordinator.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kwire.codecs.messages.coordinator.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
)
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.coordinator.machine import MachineRecord
from kwire.groups.consumer.metadata_hash import MetadataHashes
from kwire.groups.effects import Effects
from kwire.groups.limits import GroupLimits
from kwire.groups.share.group import ShareGroup, topic_names_of
from kwire.groups.share.initializing import NOTHING, Topics
from kwire.groups.share.member import ShareMember
from kwire.groups.share.records import CurrentAssignment, Epoch, MemberMetadata, TargetAssignment
from kwire.groups.surroundings import Surroundings
from kwire.groups.timers import SessionTimer


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a heartbeat comes to nothing, with Apache Kafka's words for it."""

    error: ErrorCode
    message: str | None

    def response(self) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(error_code=self.error, error_message=self.message)


class Initialization(NamedTuple):
    """What the share coordinator is to be told: these partitions are read by the group now."""

    group_id: str
    group_epoch: int
    topics: Topics


class HeartbeatReply(NamedTuple):
    """What a heartbeat is told, and what has to be done behind it."""

    response: ShareGroupHeartbeatResponse
    initialization: Initialization | None = None


class Decision:
    """The group as it is, and what would follow; nothing has happened yet."""

    __slots__ = ("effects", "group", "hashes", "limits", "now_ms", "surroundings")

    def __init__(
        self,
        group: ShareGroup,
        limits: GroupLimits,
        surroundings: Surroundings,
        hashes: MetadataHashes,
        now_ms: int,
    ) -> None:
        self.group = group
        self.limits = limits
        self.surroundings = surroundings
        self.hashes = hashes
        self.now_ms = now_ms
        self.effects = Effects()

    def append(self, *records: MachineRecord) -> None:
        self.effects.records += records

    def note(self, text: str) -> None:
        """Tell the operator; the runtime puts it into the broker's log."""
        self.effects.notes.append(f"share group {self.group.group_id}: {text}")

    # -- sessions

    def expect_heartbeat(self, member_id: str) -> None:
        """Start the member's session over; it is removed unless it is heard of in time."""
        group_id = self.group.group_id
        timer = SessionTimer(group_id, member_id)
        timeout_ms = self.surroundings.share_settings(group_id).session_timeout_ms
        self.effects.timers.append((timer.key, timer, timeout_ms))

    # -- the epoch

    def metadata_hash(self, topic_names: frozenset[str]) -> int:
        image = self.surroundings.image
        return self.hashes.of_group(self.group.group_id, topic_names, image)

    def next_epoch(self, metadata_hash: int) -> int:
        """Begin the group's next epoch, in which the target is computed anew."""
        epoch, group_id = self.group.epoch + 1, self.group.group_id
        value = ShareGroupMetadataValue(epoch, metadata_hash)
        self.append(Epoch(ShareGroupMetadataKey(group_id), value))
        self.note(f"epoch {epoch} begins")
        return epoch

    def initialize(self, topic_names: frozenset[str], epoch: int) -> Initialization | None:
        """Have the share coordinator told of partitions that it does not know."""
        group, image = self.group, self.surroundings.image
        retry_ms = self.limits.group_share_initialize_retry_interval_ms
        topics = group.state_topics.to_initialize(sorted(topic_names), image, self.now_ms, retry_ms)
        if topics == NOTHING:
            return None
        self.append(group.state_topics.asked(topics, self.now_ms).to_record(group.group_id))
        return Initialization(group.group_id, epoch, topics)

    # -- leaving

    def fence(self, gone: ShareMember) -> None:
        """Take a member out: what it read is for others, in the next epoch."""
        group_id, member_id = self.group.group_id, gone.member_id
        self.append(
            CurrentAssignment(ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
            TargetAssignment(ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
            MemberMetadata(ShareGroupMemberMetadataKey(group_id, member_id), None),
        )
        self.effects.timers.append((SessionTimer(group_id, member_id).key, None, 0))
        left = (each for each in self.group.members.values() if each is not gone)
        self.next_epoch(self.metadata_hash(topic_names_of(left)))
