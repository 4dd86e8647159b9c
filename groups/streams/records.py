"""The records of a streams group (KIP-1071).  Each value is written as version 0.

type  key            value
----  -------------  -------------------------------------------------------------------------
17    group          the group's epoch, a hash of its topics, the epoch of the topology that was
                     found valid, and the settings that the last assignment went by
19    group, member  what a member has said of itself
20    group          the epoch that the target assignment was computed for, and when
21    group, member  the tasks that a member is to have
22    group, member  those that it has now and must give up, its epoch and state
23    group          the topology: what the application reads, keeps and writes
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


class Epoch(KeyedRecord[StreamsGroupMetadataKey, StreamsGroupMetadataValue]):
    TYPE = 17
    KEY = StreamsGroupMetadataKey
    VALUE = StreamsGroupMetadataValue


class MemberMetadata(KeyedRecord[StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue]):
    TYPE = 19
    KEY = StreamsGroupMemberMetadataKey
    VALUE = StreamsGroupMemberMetadataValue


class TargetEpoch(
    KeyedRecord[StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue]
):
    TYPE = 20
    KEY = StreamsGroupTargetAssignmentMetadataKey
    VALUE = StreamsGroupTargetAssignmentMetadataValue


class TargetAssignment(
    KeyedRecord[StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue]
):
    TYPE = 21
    KEY = StreamsGroupTargetAssignmentMemberKey
    VALUE = StreamsGroupTargetAssignmentMemberValue


class CurrentAssignment(
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
    Epoch,
    MemberMetadata,
    TargetEpoch,
    TargetAssignment,
    CurrentAssignment,
    TopologyRecord,
)
