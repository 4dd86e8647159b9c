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
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.coordinators.runtime.promise import then
from kwire.groups.share.decision import ShareHeartbeatReply
from kwire.groups.share.validation import refused
from kwire.requests.context import Context


def is_served(broker: Broker) -> bool:
    """Whether share groups are enabled."""
    return broker.image.features.level(SHARE_VERSION) > 0


def handle(
    broker: Broker, request: ShareGroupHeartbeatRequest, context: Context
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    if not is_served(broker):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    refusal = refused(request)
    if refusal is not None:
        return refusal.response()
    reply = broker.coordinators.groups.share_group_heartbeat(
        request, context.client_id or "", f"/{context.client_host}"
    )
    return then(reply, lambda heartbeat_reply: _response(broker, heartbeat_reply))


def _response(broker: Broker, reply: ShareHeartbeatReply) -> ShareGroupHeartbeatResponse:
    if reply.initialization is not None:
        from kwire.requests.handlers.share_groups.telling import initialize

        broker.coordinators.groups.start_soon(initialize, broker, reply.initialization)
    return reply.response
