"""A decision about one consumer group while it is being made."""

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
    CurrentAssignment,
    Epoch,
    MemberMetadata,
    PartitionMetadata,
    RegularExpression,
    TargetAssignment,
)
from kwire.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    MayDescribe,
    RebalanceTimer,
    rebalance_key,
)


class ConsumerCaller(NamedTuple):
    """Who sends a heartbeat, as far as a group must know."""

    client_id: str
    client_host: str
    """As ConsumerGroupDescribe prints it, with Java's leading slash."""
    may_describe: MayDescribe | None = None
    """Which topics a pattern of the sender's may match; None: all."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a heartbeat comes to nothing, with Apache Kafka's words for it."""

    error: ErrorCode
    message: str

    def response(self) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error_code=self.error, error_message=self.message)


class Decision(AssigningDecision[ConsumerGroup]):
    """A decision about a consumer group: what would follow; nothing has happened yet."""

    __slots__ = ()

    # -- sessions

    def expect_heartbeat(self, member: ConsumerMember) -> None:
        """Start the member's session over; it is removed unless it is heard of in time.

        Members of the classic protocol have said how long theirs is.
        """
        if member.classic is None:
            timeout_ms = self.surroundings.settings(self.group_id).session_timeout_ms
        else:
            timeout_ms = member.classic.session_timeout_ms
        self.begin_session(member.member_id, timeout_ms)

    def expect_revocation(self, member: ConsumerMember) -> None:
        """It must have given up its partitions within its rebalance timeout."""
        timer = RebalanceTimer(self.group_id, member.member_id, member.epoch)
        self.set_timer(timer, member.rebalance_timeout_ms)

    def end_revocation(self, member_id: str) -> None:
        self.cancel_timer(rebalance_key(self.group_id, member_id))

    # -- the epoch

    def epoch_record(self, epoch: int, metadata_hash: int) -> Epoch:
        return epoch_record(self.group_id, epoch, metadata_hash)

    # -- leaving

    def forget_member(self, member_id: str) -> None:
        """The records that take a member out, and its timers."""
        self.append(*member_tombstones(self.group_id, member_id))
        self.cancel_timers(member_id)

    def cancel_timers(self, member_id: str) -> None:
        self.end_session(member_id)
        self.end_revocation(member_id)
        self.cancel_timer(ClassicJoinTimer(self.group_id, member_id).key)
        self.cancel_timer(ClassicSyncTimer(self.group_id, member_id).key)


def member_tombstones(
    group_id: str, member_id: str
) -> tuple[CurrentAssignment, TargetAssignment, MemberMetadata]:
    return (
        CurrentAssignment(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        TargetAssignment(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        MemberMetadata(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    )


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Epoch:
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    return Epoch(ConsumerGroupMetadataKey(group_id), value)


def partition_metadata_tombstone(group_id: str) -> PartitionMetadata:
    return PartitionMetadata(ConsumerGroupPartitionMetadataKey(group_id), None)


def pattern_tombstone(group_id: str, pattern: str) -> RegularExpression:
    return RegularExpression(ConsumerGroupRegularExpressionKey(group_id, pattern), None)
