"""ShareGroupHeartbeat (key 76): v1.

Behaviour
- Member epoch 0 joins the group, -1 leaves it.  With any other epoch the heartbeat keeps the
  session, and the response has the member's assignment (KIP-932).
- UNSUPPORTED_VERSION if feature `share.version` is 0.
- New partitions are initialized at the share coordinator after the response.  A later heartbeat
  assigns them to members.
- FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID say that the sender is no longer a member.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.coordinators.runtime.promise import then
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.share.decision import ShareHeartbeatReply
from kwire.groups.share.validation import refused
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.guards.describing import may_know
from kwire.requests.route import Right, Route


def is_served(broker: Broker) -> bool:
    """Whether share groups are enabled."""
    return broker.image.features.level(SHARE_VERSION) > 0


ROUTE = Route(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: ShareGroupHeartbeatRequest, context: Context
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    """Pass a valid heartbeat to the group coordinator, and return its response."""
    if not is_served(broker):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    refusal = refused(request)
    if refusal is not None:
        return ShareGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)
    caller = HeartbeatCaller(context.client_id or "", f"/{context.client_host}")
    reply = broker.coordinators.groups.share_group_heartbeat(request, caller)
    return then(reply, lambda heartbeat_reply: _response(broker, heartbeat_reply))


def _response(broker: Broker, reply: ShareHeartbeatReply) -> ShareGroupHeartbeatResponse:
    """Return the coordinator's response, and start to initialize new partitions after it."""
    if reply.initialization is not None:
        from kwire.requests.handlers.share_groups.group_state import initialize

        broker.coordinators.groups.start_soon(initialize, broker, reply.initialization)
    return reply.response


# -- rights


def guard(access: Access, request: ShareGroupHeartbeatRequest, proceed: Proceed) -> Response:
    """Require READ on the group and DESCRIBE on all topics that the request names."""
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not may_know(access, request.subscribed_topic_names or ()):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return proceed(request)
