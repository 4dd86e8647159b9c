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
from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.tasks import NO_TASKS, TaskSets, listed

STANDBY_REPLICAS = "num.standby.replicas"
"""The setting that affects the assignment, by its name in records."""


def compute(
    group: StreamsGroup,
    members: Iterable[StreamsMember],
    configured: ConfiguredTopology,
    configs: Mapping[str, str],
) -> dict[str, TaskSets]:
    """The target of each member id, in the order in which Apache Kafka writes the records.

    `members` are the members after the current request.  If the topology has a problem, all
    targets are empty.
    """
    by_id = {member.member_id: member for member in members}
    in_order = [by_id[member_id] for member_id in HashTable(string_hash, by_id)]
    if not configured.is_ready:
        return {member.member_id: NO_TASKS for member in in_order}
    specs = [
        StreamsMemberSpec(member.member_id, member.process_id, group.target_of(member.member_id))
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
