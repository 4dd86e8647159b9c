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
from kwire.groups.record_format import KeyedRecord


class StreamsGroupEpoch(KeyedRecord[StreamsGroupMetadataKey, StreamsGroupMetadataValue]):
    TYPE = 17
    KEY = StreamsGroupMetadataKey
    VALUE = StreamsGroupMetadataValue


class StreamsMemberMetadata(
    KeyedRecord[StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue]
):
    TYPE = 19
    KEY = StreamsGroupMemberMetadataKey
    VALUE = StreamsGroupMemberMetadataValue


class StreamsTargetEpoch(
    KeyedRecord[StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue]
):
    TYPE = 20
    KEY = StreamsGroupTargetAssignmentMetadataKey
    VALUE = StreamsGroupTargetAssignmentMetadataValue


class StreamsTargetAssignment(
    KeyedRecord[StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue]
):
    TYPE = 21
    KEY = StreamsGroupTargetAssignmentMemberKey
    VALUE = StreamsGroupTargetAssignmentMemberValue


class StreamsCurrentAssignment(
    KeyedRecord[StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue]
):
    TYPE = 22
    KEY = StreamsGroupCurrentMemberAssignmentKey
    VALUE = StreamsGroupCurrentMemberAssignmentValue


class TopologyRecord(KeyedRecord[StreamsGroupTopologyKey, StreamsGroupTopologyValue]):
    TYPE = 23
    KEY = StreamsGroupTopologyKey
    VALUE = StreamsGroupTopologyValue


RECORDS: tuple[type[KeyedRecord[Any, Any]], ...] = (
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsTargetEpoch,
    StreamsTargetAssignment,
    StreamsCurrentAssignment,
    TopologyRecord,
)
