"""The records of a consumer group (KIP-848).  Each value is written as version 0.

type  key            value
----  -------------  -------------------------------------------------------------------------
3     group          the group's epoch, and a hash of the topics that it is subscribed to
4     group          the topics themselves: Apache Kafka wrote it before 4.1; later ones delete it
5     group, member  a member's subscription and client
6     group          the epoch that the target assignment was computed for, and when
7     group, member  a member's target assignment
8     group, member  a member's current partitions, those to give up, its epoch and state
16    group, pattern  the topics that match a regular expression
"""

from __future__ import annotations

from typing import Any

from kwire.codecs.messages.coordinator.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kwire.codecs.messages.coordinator.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from kwire.codecs.messages.coordinator.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from kwire.codecs.messages.coordinator.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kwire.groups.assigned.records import (
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    RecordRoles,
    TargetAssignment,
    TargetEpoch,
)
from kwire.groups.record_format import KeyedRecord


class ConsumerGroupEpoch(GroupEpoch[ConsumerGroupMetadataKey, ConsumerGroupMetadataValue]):
    TYPE = 3


class PartitionMetadata(
    KeyedRecord[ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue]
):
    TYPE = 4


class ConsumerMemberMetadata(
    MemberMetadata[ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue]
):
    TYPE = 5


class ConsumerTargetEpoch(
    TargetEpoch[
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
    ]
):
    TYPE = 6


class ConsumerTargetAssignment(
    TargetAssignment[
        ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue
    ]
):
    TYPE = 7


class ConsumerCurrentAssignment(
    CurrentAssignment[
        ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue
    ]
):
    TYPE = 8


class RegularExpression(
    KeyedRecord[ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue]
):
    TYPE = 16


ROLES = RecordRoles(
    ConsumerGroupEpoch,
    ConsumerMemberMetadata,
    ConsumerTargetEpoch,
    ConsumerTargetAssignment,
    ConsumerCurrentAssignment,
)

RECORDS: tuple[type[KeyedRecord[Any, Any]], ...] = (*ROLES, PartitionMetadata, RegularExpression)
