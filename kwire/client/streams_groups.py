"""Descriptions of streams groups (KIP-1071): the tasks of members, and their partitions."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.client.cluster import TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import check
from kwire.client.groups import STREAMS, GroupDescription, Member, Subtopology, Tasks
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import streams_group_describe as describe

ASSIGNOR = "sticky"
"""The only assignor of streams groups.  No response names it."""


def describe_streams(connection: BrokerConnection, group_id: str) -> GroupDescription | None:
    """A streams group, or None if no streams group has this id."""
    request = describe.StreamsGroupDescribeRequest(group_ids=[group_id])
    return streams_group(connection.call(request).groups[0])


def streams_group(group: describe.DescribedGroup) -> GroupDescription | None:
    """The description of a streams group in a response, or None if the group does not exist.

    Raises BrokerRefused for the group's error.
    """
    group_id = group.group_id
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(group.error_code, f"group {group_id}", group.error_message)
    subtopologies = _subtopologies(group.topology)
    sources = {each.subtopology_id: each.sources for each in subtopologies}
    return GroupDescription(
        group_id,
        STREAMS,
        group.group_state,
        ASSIGNOR,
        -1,
        [_member(member, sources) for member in group.members],
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        subtopologies=subtopologies,
    )


def _subtopologies(topology: describe.Topology | None) -> list[Subtopology]:
    """The subtopologies of a topology in a response; none if the group has none yet."""
    return [
        Subtopology(
            each.subtopology_id,
            [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)],
            list(each.repartition_sink_topics),
            [topic.name for topic in each.state_changelog_topics],
        )
        for each in (() if topology is None else topology.subtopologies or ())
    ]


def _member(member: describe.Member, sources: dict[str, list[str]]) -> Member:
    """Converts a member of a response.  `sources` has the source topics of each subtopology, from
    which follow the partitions of a task."""
    current, target = member.assignment, member.target_assignment
    return Member(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        _partitions(current.active_tasks, sources),
        epoch=member.member_epoch,
        protocol="classic" if member.is_classic else STREAMS,
        target=_partitions(target.active_tasks, sources),
        tasks=Tasks(
            member.process_id,
            _names(current.active_tasks),
            _names(current.standby_tasks),
            _names(target.active_tasks),
            _names(target.standby_tasks),
            _names(current.warmup_tasks),
        ),
    )


def _partitions(
    tasks: Iterable[describe.TaskIds], sources: dict[str, list[str]]
) -> list[TopicPartition]:
    """The partitions that the tasks may read.

    Some may not exist: a topic may have fewer partitions than its subtopology has tasks.
    """
    return [
        TopicPartition(topic, partition)
        for each in tasks
        for topic in sources.get(each.subtopology_id, ())
        for partition in each.partitions
    ]


def _names(tasks: Iterable[describe.TaskIds]) -> list[str]:
    return [f"{each.subtopology_id}_{partition}" for each in tasks for partition in each.partitions]
