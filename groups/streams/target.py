"""Computes the target assignment of a streams group for its epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.codecs.messages.coordinator.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberValue,
    TaskIds,
)
from kwire.groups.java import HashTable, string_hash
from kwire.groups.streams.assignor import (
    StreamsGroupSpec,
    StreamsMemberSpec,
    SubtopologySpec,
    assign,
)
from kwire.groups.streams.configuring import ConfiguredTopology
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.tasks import NO_OFFSETS, NO_TASKS, TaskOffsets, TaskSets, listed

STANDBY_REPLICAS = "num.standby.replicas"
TAGS = "rack.aware.assignment.tags"
"""The settings that affect the assignment, by their names in records."""


def compute(
    members: Iterable[StreamsMember],
    configured: ConfiguredTopology,
    configs: Mapping[str, str],
    offsets: Mapping[str, TaskOffsets],
) -> dict[str, TaskSets]:
    """The target of each member id, in the order in which Apache Kafka writes the records.

    `members` are the members after the current request, `offsets` what they reported of their
    tasks.  If the topology has a problem, all targets are empty.
    """
    by_id = {member.member_id: member for member in members}
    in_order = [by_id[member_id] for member_id in HashTable(string_hash, by_id)]
    if not configured.is_ready:
        return {member.member_id: NO_TASKS for member in in_order}
    specs = [
        StreamsMemberSpec(
            member.member_id,
            member.process_id,
            member.assigned.sets,
            offsets.get(member.member_id, NO_OFFSETS).offsets,
        )
        for member in in_order
    ]
    subtopologies = [
        SubtopologySpec(name, each.task_count, each.is_stateful)
        for name, each in configured.subtopologies.items()
    ]
    return assign(StreamsGroupSpec(specs, subtopologies, int(configs.get(STANDBY_REPLICAS, 0))))


def value(target: TaskSets) -> StreamsGroupTargetAssignmentMemberValue:
    """The value of the record of one member's target."""
    return StreamsGroupTargetAssignmentMemberValue(
        listed(target.active, TaskIds),
        listed(target.standby, TaskIds),
        listed(target.warmup, TaskIds),
    )
