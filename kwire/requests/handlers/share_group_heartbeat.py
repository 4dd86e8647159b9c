"""ShareGroupHeartbeat (key 76): v1.

Behaviour
- Joins with epoch 0, leaves with -1; else keeps the session and learns what to read (KIP-932).
- UNSUPPORTED_VERSION where `share.version` is off.
- The share coordinator is told of new partitions behind the reply; the member is given them with a
  heartbeat after that.
- FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID tell a member that it is out.
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
from kwire.groups.share.decision import HeartbeatReply
from kwire.groups.share.validation import refused
from kwire.requests.context import Context


def is_served(broker: Broker) -> bool:
    """Whether there are share groups."""
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
    return then(reply, lambda told: _response(broker, told))


def _response(broker: Broker, reply: HeartbeatReply) -> ShareGroupHeartbeatResponse:
    if reply.initialization is not None:
        from kwire.requests.handlers.share_groups.telling import initialize

        broker.coordinators.groups.start_soon(initialize, broker, reply.initialization)
    return reply.response
