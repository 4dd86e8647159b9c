"""Validates ConsumerGroupHeartbeat before its group is looked up."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.groups.assigned.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    NO_REBALANCE_TIMEOUT,
)

MEMBERS_NAME_THEMSELVES_SINCE = 1


def refused(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]
) -> Refusal | None:
    """The refusal of an invalid request, else None.  `assignors`: `group.consumer.assignors`."""
    message = _empty(request, api_version) or _of_epoch(request)
    if message is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    name = request.server_assignor
    if name is not None and name not in assignors:
        return Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.",
        )
    return None


def _empty(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    """Return the message about an empty field, else None.

    Before version 1 the coordinator chose the member id, so it may be empty in a join.
    """
    named = api_version >= MEMBERS_NAME_THEMSELVES_SINCE
    fields = (
        ("MemberId", request.member_id or (not named and request.member_epoch == JOIN_EPOCH)),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id != ""),
        ("RackId", request.rack_id != ""),
    )
    return next((f"{name} can't be empty." for name, is_valid in fields if not is_valid), None)


def _of_epoch(request: ConsumerGroupHeartbeatRequest) -> str | None:
    """Return the message about a field that does not fit the member epoch, else None."""
    match request.member_epoch:
        case 0:
            return _joining(request)
        case epoch if epoch == LEAVE_FOR_A_WHILE_EPOCH:
            return None if request.instance_id is not None else "InstanceId can't be null."
        case epoch if epoch < LEAVE_EPOCH:
            return "MemberEpoch is invalid."
    return None


def _joining(request: ConsumerGroupHeartbeatRequest) -> str | None:
    """Return the message about a field that a join lacks or must not have, else None."""
    if request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    return None
