"""Heartbeat (key 12): v0-4.

Behaviour
- Starts the session over.  REBALANCE_IN_PROGRESS asks the member to join again; ILLEGAL_GENERATION,
  UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID tell it that it is out.
- While the coordinator is loading the answer is NONE: nobody can be late yet.

Version notes: group instance ids from v3; flexible from v4.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.requests.context import Context


def handle(
    broker: Broker, request: HeartbeatRequest, context: Context
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    reply = broker.coordinators.groups.heartbeat(request)
    return reply if isinstance(reply, HeartbeatResponse) else reply.wait()
