"""The records of a streams group (KIP-1071).  Each value is written as version 0.

type  key            value
----  -------------  -------------------------------------------------------------------------
17    group          the group's epoch, a hash of its topics, the epoch of the validated topology,
                     and the settings of the last assignment
19    group, member  a member's metadata
20    group          the epoch that the target assignment was computed for, and when
21    group, member  a member's target tasks
22    group, member  a member's current tasks, those to give up, its epoch and state
23    group          the topology: the topics that the application reads, keeps and writes
"""

from __future__ import annotations

from typing import Any

from kwire.codecs.messages.coordinator.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from kwire.codecs.messages.coordinator.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kwire.codecs.messages.coordinator.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kwire.codecs.messages.coordinator.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from kwire.codecs.messages.coordinator.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from kwire.codecs.messages.coordinator.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
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


class StreamsGroupEpoch(GroupEpoch[StreamsGroupMetadataKey, StreamsGroupMetadataValue]):
    TYPE = 17


class StreamsMemberMetadata(
    MemberMetadata[StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue]
):
    TYPE = 19


class StreamsTargetEpoch(
    TargetEpoch[StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue]
):
    TYPE = 20


class StreamsTargetAssignment(
    TargetAssignment[StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue]
):
    TYPE = 21


class StreamsCurrentAssignment(
    CurrentAssignment[
        StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue
    ]
):
    TYPE = 22


class TopologyRecord(KeyedRecord[StreamsGroupTopologyKey, StreamsGroupTopologyValue]):
    TYPE = 23


ROLES = RecordRoles(
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsTargetEpoch,
    StreamsTargetAssignment,
    StreamsCurrentAssignment,
)

RECORDS: tuple[type[KeyedRecord[Any, Any]], ...] = (*ROLES, TopologyRecord)
