"""A decision about one share group, while it is made."""

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
from kwire.groups.share.initializing import NOTHING, StateTopicPartitions
from kwire.groups.share.member import ShareGroupMember
from kwire.groups.share.records import (
    ShareCurrentAssignment,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareTargetAssignment,
)


@dataclass(frozen=True, slots=True)
class ShareRefusal:
    """The error of a refused heartbeat, with Apache Kafka's message."""

    error: ErrorCode
    message: str | None

    def response(self) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(error_code=self.error, error_message=self.message)


class ShareInitialization(NamedTuple):
    """A request to the share coordinator: initialize the state of these partitions."""

    group_id: str
    group_epoch: int
    topics: StateTopicPartitions


class ShareHeartbeatReply(NamedTuple):
    """The response of a heartbeat, and the initialization to start after it."""

    response: ShareGroupHeartbeatResponse
    initialization: ShareInitialization | None = None


class ShareDecision(AssigningDecision[ShareGroup]):
    """A decision about a share group; it collects records and timers, and changes nothing."""

    __slots__ = ()

    NOUN = "share group"

    # -- sessions

    def expect_heartbeat(self, member_id: str) -> None:
        """Restart the member's session; the member is removed if it sends nothing in that time."""
        settings = self.surroundings.share_settings(self.group_id)
        self.begin_session(member_id, settings.session_timeout_ms)

    # -- the epoch

    def epoch_record(self, epoch: int, metadata_hash: int) -> ShareGroupEpoch:
        value = ShareGroupMetadataValue(epoch, metadata_hash)
        return ShareGroupEpoch(ShareGroupMetadataKey(self.group_id), value)

    def initialize(self, topic_names: frozenset[str], epoch: int) -> ShareInitialization | None:
        """The initialization of partitions whose state does not exist yet, or None."""
        group, image = self.group, self.surroundings.image
        retry_ms = self.limits.group_share_initialize_retry_interval_ms
        topics = group.state_topics.to_initialize(sorted(topic_names), image, self.now_ms, retry_ms)
        if topics == NOTHING:
            return None
        self.append(group.state_topics.with_request(topics, self.now_ms).to_record(group.group_id))
        return ShareInitialization(group.group_id, epoch, topics)

    # -- leaving

    def fence(self, removed: ShareGroupMember) -> None:
        """Remove a member; the next epoch assigns its partitions to others."""
        group_id, member_id = self.group.group_id, removed.member_id
        self.append(
            ShareCurrentAssignment(ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
            ShareTargetAssignment(ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
            ShareMemberMetadata(ShareGroupMemberMetadataKey(group_id, member_id), None),
        )
        self.end_session(member_id)
        left = (member for member in self.group.members.values() if member is not removed)
        self.next_epoch(self.metadata_hash(topic_names_of(left)))
