"""The target assignment: who is to have which tasks as of the group's epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.codecs.messages.coordinator.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    TaskIds,
)
from kwire.codecs.messages.coordinator.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from kwire.groups.java import HashTable, string_hash
from kwire.groups.streams.assignor import GroupSpec, MemberSpec, SubtopologySpec, assign
from kwire.groups.streams.configuring import Configured
from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.records import TargetAssignment, TargetEpoch
from kwire.groups.streams.tasks import NO_TASKS, TaskSets, listed

STANDBY_REPLICAS = "num.standby.replicas"
"""The setting that tasks are dealt out by, as records name it."""


def compute(
    group: StreamsGroup,
    members: Iterable[StreamsMember],
    configured: Configured,
    configs: Mapping[str, str],
) -> dict[str, TaskSets]:
    """By member id, in the order in which Apache Kafka writes them; `members`: as they will be.

    Where the topology is not ready nobody is to have anything.
    """
    by_id = {member.member_id: member for member in members}
    in_order = [by_id[member_id] for member_id in HashTable(string_hash, by_id)]
    if not configured.is_ready:
        return {member.member_id: NO_TASKS for member in in_order}
    specs = [
        MemberSpec(member.member_id, member.process_id, group.target_of(member.member_id))
        for member in in_order
    ]
    subtopologies = [
        SubtopologySpec(name, each.task_count, each.is_stateful)
        for name, each in configured.subtopologies.items()
    ]
    return assign(GroupSpec(specs, subtopologies, int(configs.get(STANDBY_REPLICAS, 0))))


def record(group_id: str, member_id: str, tasks: TaskSets) -> TargetAssignment:
    return TargetAssignment(
        StreamsGroupTargetAssignmentMemberKey(group_id, member_id),
        StreamsGroupTargetAssignmentMemberValue(
            listed(tasks.active, TaskIds),
            listed(tasks.standby, TaskIds),
            listed(tasks.warmup, TaskIds),
        ),
    )


def epoch_record(group_id: str, epoch: int, now_ms: int) -> TargetEpoch:
    return TargetEpoch(
        StreamsGroupTargetAssignmentMetadataKey(group_id),
        StreamsGroupTargetAssignmentMetadataValue(epoch, now_ms),
    )
