"""Validates StreamsGroupHeartbeat before its group is looked up."""

from __future__ import annotations

from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from kwire.groups.assigned.member import (
    JOIN_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    NO_REBALANCE_TIMEOUT,
)


def topics_of(topology: Topology | None) -> list[str]:
    """All topic names in a topology, without duplicates, in its order."""
    subtopologies = () if topology is None else topology.subtopologies
    names = (
        name
        for each in subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    )
    return list(dict.fromkeys(names))


def refused_topics(topology: Topology | None) -> Refusal | None:
    """The refusal of a topology with internal or invalid topic names, else None."""
    names = topics_of(topology)
    internal = ",".join(name for name in names if name in INTERNAL_TOPICS)
    if internal:
        message = (
            f"Use of Kafka internal topics {internal} in a Kafka Streams topology is prohibited."
        )
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    invalid = ",".join(name for name in names if why_invalid(name) is not None)
    if invalid or "" in names:
        message = f"Topic names {invalid} are not valid topic names."
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    return None


def refused(request: StreamsGroupHeartbeatRequest) -> Refusal | None:
    """The refusal of an invalid request, else None."""
    message = _unsupported(request) or _empty(request) or _of_epoch(request)
    if message is None and request.member_epoch == JOIN_EPOCH:
        changelog = _counted_changelog(request)
        if changelog is not None:
            return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, changelog)
    message = message or _of_tasks(request)
    return None if message is None else Refusal(ErrorCode.INVALID_REQUEST, message)


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str | None:
    """The message about a field that no Apache Kafka release supports yet, else None."""
    subtopologies = [] if request.topology is None else request.topology.subtopologies
    if any(each.source_topic_regex for each in subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _empty(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return the message about the first empty field, else None."""
    fields = (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    )
    blank = (name for name, value in fields if value is not None and not value.strip())
    return next((f"{name} can't be empty." for name in blank), None)


def _of_epoch(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return the message about a field that does not fit the member epoch, else None."""
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        return _joining(request)
    if epoch == LEAVE_FOR_A_WHILE_EPOCH:
        return "InstanceId can't be null." if request.instance_id is None else None
    if epoch < LEAVE_FOR_A_WHILE_EPOCH:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    return None


def _joining(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return the message about a field that a join lacks or must not have, else None."""
    if request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            return f"{name} must be empty when (re-)joining."
    return None if request.topology is not None else "Topology must be non-null when (re-)joining."


def _counted_changelog(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return the message about a changelog with a partition count, else None.

    The coordinator computes that count.
    """
    subtopologies = [] if request.topology is None else request.topology.subtopologies
    for topic in (topic for each in subtopologies for topic in each.state_changelog_topics):
        if topic.partitions != 0:
            return (
                f"Changelog topic {topic.name} must have an undefined partition count, but it is "
                f"set to {topic.partitions}."
            )
    return None


def _of_tasks(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return the message about a wrong list of tasks or a misplaced topology, else None."""
    tasks = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if any(each is None for each in tasks) and any(each is not None for each in tasks):
        return "If one task-type is non-null, all must be non-null."
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return None
