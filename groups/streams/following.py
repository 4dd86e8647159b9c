"""Applies the records of a streams group to the group."""

from __future__ import annotations

from typing import assert_never

from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.records import (
    StreamsCurrentAssignment,
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsTargetAssignment,
    StreamsTargetEpoch,
    TopologyRecord,
)
from kwire.groups.streams.tasks import TaskSets, tasks_of
from kwire.groups.streams.topology import Topology

StreamsGroupRecord = (
    StreamsGroupEpoch
    | StreamsMemberMetadata
    | StreamsTargetEpoch
    | StreamsTargetAssignment
    | StreamsCurrentAssignment
    | TopologyRecord
)

NO_TARGET_EPOCH = -1


def follow(group: StreamsGroup, record: StreamsGroupRecord) -> None:
    """Apply one record.  The caller handles the tombstone that deletes the group."""
    match record:
        case StreamsGroupEpoch():
            _follow_epoch(group, record)
        case StreamsMemberMetadata():
            _follow_metadata(group, record)
        case StreamsTargetEpoch(value=value):
            group.target_epoch = NO_TARGET_EPOCH if value is None else value.assignment_epoch
            group.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
        case StreamsTargetAssignment():
            _follow_target(group, record)
        case StreamsCurrentAssignment():
            _follow_assignment(group, record)
        case TopologyRecord(value=value):
            group.topology = None if value is None else Topology(value)
        case _:
            assert_never(record)


def _follow_epoch(group: StreamsGroup, record: StreamsGroupEpoch) -> None:
    value = record.value
    if value is not None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        configs = value.last_assignment_configs or ()
        group.assignment_configs = {config.key: config.value for config in configs}


def _follow_metadata(group: StreamsGroup, record: StreamsMemberMetadata) -> None:
    member_id = record.key.member_id
    if record.value is None:
        group.remove(member_id)
    else:
        member = group.members.get(member_id) or StreamsMember(member_id)
        group.put(member.with_metadata(record.value))


def _follow_target(group: StreamsGroup, record: StreamsTargetAssignment) -> None:
    value = record.value
    if value is None:
        group.target.pop(record.key.member_id, None)
    else:
        group.target[record.key.member_id] = TaskSets(
            tasks_of(value.active_tasks),
            tasks_of(value.standby_tasks),
            tasks_of(value.warmup_tasks),
        )


def _follow_assignment(group: StreamsGroup, record: StreamsCurrentAssignment) -> None:
    member_id = record.key.member_id
    member = group.members.get(member_id)
    if record.value is not None:
        group.put((member or StreamsMember(member_id)).with_assignment(record.value))
    elif member is not None:
        group.put(member.without_assignment())
