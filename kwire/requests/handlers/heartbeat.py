"""Heartbeat (key 12): v0-4.

Behaviour
- Restarts the member's session timeout.  REBALANCE_IN_PROGRESS tells the member to join again;
  ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID say that it is no longer a member.
- While the coordinator loads, the response is NONE: no session timeout runs yet.

Version notes: group instance ids from v3; flexible from v4.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.requests.context import Context
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.HEARTBEAT, 0, 4, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: HeartbeatRequest, context: Context
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Pass the heartbeat to the group coordinator, and return its response."""
    reply = broker.coordinators.groups.heartbeat(request)
    return reply if isinstance(reply, HeartbeatResponse) else reply.wait()
