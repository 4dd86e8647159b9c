"""Validates ShareGroupHeartbeat before its group is looked up."""

from __future__ import annotations

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.groups.assigned.member import JOIN_EPOCH, LEAVE_EPOCH

MEMBER_ID_CHARACTERS_MAX = 36
"""Length of a UUID as Java prints it; Apache Kafka's clients send 22 characters of base64."""


def refused(request: ShareGroupHeartbeatRequest) -> Refusal | None:
    """Return the refusal of an invalid request, else None; a bad member id has no message."""
    if not 0 < len(request.member_id) <= MEMBER_ID_CHARACTERS_MAX:
        return Refusal(ErrorCode.INVALID_REQUEST)
    message = _invalid(request)
    return None if message is None else Refusal(ErrorCode.INVALID_REQUEST, message)


def _invalid(request: ShareGroupHeartbeatRequest) -> str | None:
    """Return Kafka's message about an invalid field, None if the request is valid."""
    if not request.group_id:
        return "GroupId can't be empty."
    if request.rack_id == "":
        return "RackId can't be empty."
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return "MemberEpoch is invalid." if request.member_epoch < LEAVE_EPOCH else None
