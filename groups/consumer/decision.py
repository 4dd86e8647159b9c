"""A decision about one consumer group, while it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.codecs.messages.coordinator.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from kwire.codecs.messages.coordinator.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from kwire.codecs.messages.coordinator.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from kwire.codecs.messages.coordinator.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
)
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from kwire.groups.assigning import AssigningDecision
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import (
    ConsumerCurrentAssignment,
    ConsumerGroupEpoch,
    ConsumerMemberMetadata,
    ConsumerTargetAssignment,
    PartitionMetadata,
    RegularExpression,
)
from kwire.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer, MayDescribe
from kwire.groups.timers import RebalanceTimer, rebalance_key


class ConsumerCaller(NamedTuple):
    """The client that sends a heartbeat."""

    client_id: str
    client_host: str
    """As ConsumerGroupDescribe shows it, with Java's leading slash."""
    may_describe: MayDescribe | None = None
    """Whether a pattern of this client may match a topic; None if it may match all."""


@dataclass(frozen=True, slots=True)
class ConsumerRefusal:
    """The error of a refused heartbeat, with Apache Kafka's message."""

    error: ErrorCode
    message: str

    def response(self) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error_code=self.error, error_message=self.message)


class ConsumerDecision(AssigningDecision[ConsumerGroup]):
    """A decision about a consumer group; it collects records and timers, and changes nothing."""

    __slots__ = ()

    # -- sessions

    def expect_heartbeat(self, member: ConsumerMember) -> None:
        """Restart the member's session; the member is removed if it sends nothing in that time.

        A member of the classic protocol has a session timeout of its own.
        """
        if member.classic is None:
            timeout_ms = self.surroundings.settings(self.group_id).session_timeout_ms
        else:
            timeout_ms = member.classic.session_timeout_ms
        self.begin_session(member.member_id, timeout_ms)

    def expect_revocation(self, member: ConsumerMember) -> None:
        """Set the timer that removes the member if it does not give up its partitions."""
        timer = RebalanceTimer(self.group_id, member.member_id, member.epoch)
        self.set_timer(timer, member.rebalance_timeout_ms)

    def end_revocation(self, member_id: str) -> None:
        self.cancel_timer(rebalance_key(self.group_id, member_id))

    # -- the epoch

    def epoch_record(self, epoch: int, metadata_hash: int) -> ConsumerGroupEpoch:
        return epoch_record(self.group_id, epoch, metadata_hash)

    # -- leaving

    def forget_member(self, member_id: str) -> None:
        """Add the tombstones of a member, and cancel its timers."""
        self.append(*member_tombstones(self.group_id, member_id))
        self.cancel_timers(member_id)

    def cancel_timers(self, member_id: str) -> None:
        self.end_session(member_id)
        self.end_revocation(member_id)
        self.cancel_timer(ClassicJoinTimer(self.group_id, member_id).key)
        self.cancel_timer(ClassicSyncTimer(self.group_id, member_id).key)


def member_tombstones(
    group_id: str, member_id: str
) -> tuple[ConsumerCurrentAssignment, ConsumerTargetAssignment, ConsumerMemberMetadata]:
    return (
        ConsumerCurrentAssignment(
            ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None
        ),
        ConsumerTargetAssignment(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        ConsumerMemberMetadata(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    )


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> ConsumerGroupEpoch:
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    return ConsumerGroupEpoch(ConsumerGroupMetadataKey(group_id), value)


def partition_metadata_tombstone(group_id: str) -> PartitionMetadata:
    return PartitionMetadata(ConsumerGroupPartitionMetadataKey(group_id), None)


def pattern_tombstone(group_id: str, pattern: str) -> RegularExpression:
    return RegularExpression(ConsumerGroupRegularExpressionKey(group_id, pattern), None)
