"""The records of a share group (KIP-932).  Each value is written as version 0.

type  key            value
----  -------------  -------------------------------------------------------------------------
10    group, member  what a member has said of itself
11    group          the group's epoch, and a hash of the topics that it is subscribed to
12    group          the epoch that the target assignment was computed for, and when
13    group, member  the partitions that a member is to read
14    group, member  those that it reads now, and its epoch
15    group          partitions whose state the share coordinator has, is to have, is to forget
"""

from __future__ import annotations

from typing import Any

from kwire.codecs.messages.coordinator.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from kwire.codecs.messages.coordinator.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kwire.codecs.messages.coordinator.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kwire.codecs.messages.coordinator.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from kwire.codecs.messages.coordinator.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from kwire.codecs.messages.coordinator.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
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


class ShareMemberMetadata(
    MemberMetadata[ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue]
):
    TYPE = 10


class ShareGroupEpoch(GroupEpoch[ShareGroupMetadataKey, ShareGroupMetadataValue]):
    TYPE = 11


class ShareTargetEpoch(
    TargetEpoch[ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue]
):
    TYPE = 12


class ShareTargetAssignment(
    TargetAssignment[ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue]
):
    TYPE = 13


class ShareCurrentAssignment(
    CurrentAssignment[ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue]
):
    TYPE = 14


class StatePartitions(
    KeyedRecord[ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue]
):
    TYPE = 15


ROLES = RecordRoles(
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareTargetEpoch,
    ShareTargetAssignment,
    ShareCurrentAssignment,
)

RECORDS: tuple[type[KeyedRecord[Any, Any]], ...] = (*ROLES, StatePartitions)
