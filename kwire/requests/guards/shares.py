"""Guards of requests about share groups and their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeResponse
from kwire.codecs.messages.share_fetch import ShareFetchResponse
from kwire.codecs.messages.share_group_describe import DescribedGroup
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.requests.guards.base import Access, Proceed, Response, then
from kwire.requests.guards.describing import completing_response, may_know

if TYPE_CHECKING:
    from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
    from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

if TYPE_CHECKING:
    from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeRequest
    from kwire.codecs.messages.share_fetch import ShareFetchRequest


def share_group_heartbeat(
    access: Access, request: ShareGroupHeartbeatRequest, proceed: Proceed
) -> Response:
    if not access.may(AclOperation.READ, GROUP, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=DENIED)
    if not may_know(access, request.subscribed_topic_names or ()):
        return ShareGroupHeartbeatResponse(error_code=TOPIC_DENIED)
    return proceed(request)


def share_group_describe(
    access: Access, request: ShareGroupDescribeRequest, proceed: Proceed
) -> Response:
    allowed, denied = access.split(AclOperation.DESCRIBE, GROUP, request.group_ids, str)
    request.group_ids = allowed
    refused = [DescribedGroup(error_code=DENIED, group_id=group_id) for group_id in denied]
    return then(proceed(request), completing_response(access, request, refused, _topic_names))


def _topic_names(group: DescribedGroup) -> set[str]:
    """The topics that are assigned to members or that they subscribe to."""
    assigned = {
        topic.topic_name for member in group.members for topic in member.assignment.topic_partitions
    }
    return assigned | {name for member in group.members for name in member.subscribed_topic_names}


def share_fetch(access: Access, request: ShareFetchRequest, proceed: Proceed) -> Response:
    """The handler checks the topics, because the session has some that the request does not name:
    see kwire.requests.handlers.fetching.read_rights."""
    if not access.may(AclOperation.READ, GROUP, request.group_id or ""):
        return ShareFetchResponse(error_code=DENIED)
    return proceed(request)


def share_acknowledge(
    access: Access, request: ShareAcknowledgeRequest, proceed: Proceed
) -> Response:
    if not access.may(AclOperation.READ, GROUP, request.group_id or ""):
        return ShareAcknowledgeResponse(error_code=DENIED)
    return proceed(request)
