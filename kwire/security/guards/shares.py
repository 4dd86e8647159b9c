"""Requests about share groups and their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeResponse
from kwire.codecs.messages.share_fetch import ShareFetchResponse
from kwire.codecs.messages.share_group_describe import DescribedGroup
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.security.guards.base import Access, Proceed, Response, then
from kwire.security.operations import GROUP_OPERATIONS

if TYPE_CHECKING:
    from kwire.codecs.messages.share_group_describe import (
        ShareGroupDescribeRequest,
        ShareGroupDescribeResponse,
    )
    from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeRequest
    from kwire.codecs.messages.share_fetch import ShareFetchRequest
    from kwire.context import Context
    from kwire.share.session import Place


def share_group_heartbeat(
    access: Access, request: ShareGroupHeartbeatRequest, proceed: Proceed
) -> Response:
    """Nobody may subscribe to a topic that they may not know."""
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=DENIED)
    names = request.subscribed_topic_names or ()
    if len(access.permitted(AclOperation.DESCRIBE, TOPIC, names)) < len(set(names)):
        return ShareGroupHeartbeatResponse(error_code=TOPIC_DENIED)
    return proceed(request)


def share_group_describe(
    access: Access, request: ShareGroupDescribeRequest, proceed: Proceed
) -> Response:
    allowed, denied = access.split(AclOperation.DESCRIBE, GROUP, request.group_ids, str)
    request.group_ids = allowed
    refused = [DescribedGroup(error_code=DENIED, group_id=each) for each in denied]

    def merge(response: ShareGroupDescribeResponse) -> ShareGroupDescribeResponse:
        for group in response.groups:
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = access.authority.operations(
                    access.context, GROUP_OPERATIONS, GROUP, group.group_id
                )
            _hide_unknown_topics(access, group)
        response.groups = [*refused, *response.groups]
        return response

    return then(proceed(request), merge)


def _hide_unknown_topics(access: Access, group: DescribedGroup) -> None:
    """A group is not told of by whom it may be known, but its topics may not."""
    names = {t.topic_name for m in group.members for t in m.assignment.topic_partitions}
    names |= {name for member in group.members for name in member.subscribed_topic_names}
    if len(access.permitted(AclOperation.DESCRIBE, TOPIC, sorted(names))) < len(names):
        group.members = []
        group.error_code = TOPIC_DENIED
        group.error_message = "The group has described topic(s) that the client is not authorized "
        group.error_message += "to describe."


def share_fetch(access: Access, request: ShareFetchRequest, proceed: Proceed) -> Response:
    """Which topics may be read is asked of all that the session has: see `split_readable`."""
    if not access.may(AclOperation.READ, GROUP, request.group_id or ""):
        return ShareFetchResponse(error_code=DENIED)
    return proceed(request)


def share_acknowledge(
    access: Access, request: ShareAcknowledgeRequest, proceed: Proceed
) -> Response:
    if not access.may(AclOperation.READ, GROUP, request.group_id or ""):
        return ShareAcknowledgeResponse(error_code=DENIED)
    return proceed(request)


def split_readable(
    broker: Broker, context: Context, places: list[Place]
) -> tuple[list[Place], list[Place]]:
    """Partitions that a member may read, and others."""
    assert broker.authorizer is not None
    authorizer = broker.authorizer
    allowed: dict[bytes, bool] = {}
    for topic_id, _ in places:
        if topic_id not in allowed:
            name = broker.topic_name(topic_id)
            allowed[topic_id] = name is None or authorizer.allows(
                context, AclOperation.READ, TOPIC, name
            )
    readable = [place for place in places if allowed[place[0]]]
    return readable, [place for place in places if not allowed[place[0]]]
