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
from kwire.groups.assigning import AssigningDecision
from kwire.groups.share.group import ShareGroup, topic_names_of
from kwire.groups.share.initializing import NOTHING, Topics
from kwire.groups.share.member import ShareMember
from kwire.groups.share.records import CurrentAssignment, Epoch, MemberMetadata, TargetAssignment


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


class Decision(AssigningDecision[ShareGroup]):
    """A decision about a share group: what would follow; nothing has happened yet."""

    __slots__ = ()

    NOUN = "share group"

    # -- sessions

    def expect_heartbeat(self, member_id: str) -> None:
        """Start the member's session over; it is removed unless it is heard of in time."""
        settings = self.surroundings.share_settings(self.group_id)
        self.begin_session(member_id, settings.session_timeout_ms)

    # -- the epoch

    def epoch_record(self, epoch: int, metadata_hash: int) -> Epoch:
        value = ShareGroupMetadataValue(epoch, metadata_hash)
        return Epoch(ShareGroupMetadataKey(self.group_id), value)

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
        self.end_session(member_id)
        left = (each for each in self.group.members.values() if each is not gone)
        self.next_epoch(self.metadata_hash(topic_names_of(left)))
