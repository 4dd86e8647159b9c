"""StreamsGroupDescribe: the description of a group and its members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.codecs.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    TaskIds,
    TaskOffset,
)
from kwire.codecs.messages.streams_group_describe import Topology as DescribedTopology
from kwire.groups.streams.configuring import ConfiguredTopology
from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.tasks import NO_OFFSETS, TaskOffsets, TaskSets, TaskSums, listed


def described(
    group: StreamsGroup, configured: ConfiguredTopology | None, assignor_name: str
) -> DescribedGroup:
    """The description of a group; `configured` is None if the topology has a problem."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group, configured),
        members=[
            _member(
                member,
                group.target_of(member.member_id),
                group.session.task_offsets.get(member.member_id, NO_OFFSETS),
            )
            for member in group.members.values()
        ],
        assignor_name=assignor_name,
    )


def _topology(
    group: StreamsGroup, configured: ConfiguredTopology | None
) -> DescribedTopology | None:
    """Return the topology with partition counts; as it was sent if tasks cannot be assigned."""
    if group.topology is None:
        return None
    if configured is None or not configured.is_ready:
        return group.topology.described()
    return configured.described(group.topology.epoch)


def _member(member: StreamsMember, target: TaskSets, offsets: TaskOffsets) -> Member:
    """Return the description of one member, with its current and target tasks."""
    assigned = member.assigned
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(*member.endpoint),
        client_tags=[KeyValue(key, value) for key, value in member.client_tags.items()],
        task_offsets=_task_offsets(offsets.offsets),
        task_end_offsets=_task_offsets(offsets.end_offsets),
        assignment=_assignment(assigned.active, assigned.standby, assigned.warmup),
        target_assignment=_assignment(target.active, target.standby, target.warmup),
    )


def _assignment(
    active: Mapping[str, Iterable[int]],
    standby: Mapping[str, Iterable[int]],
    warmup: Mapping[str, Iterable[int]],
) -> Assignment:
    """Return the tasks of the three roles as the description has them."""
    return Assignment(listed(active, TaskIds), listed(standby, TaskIds), listed(warmup, TaskIds))


def _task_offsets(sums: TaskSums) -> list[TaskOffset]:
    """The reported offsets, sorted by subtopology and partition."""
    return [
        TaskOffset(subtopology, partition, sums[subtopology][partition])
        for subtopology in sorted(sums)
        for partition in sorted(sums[subtopology])
    ]
