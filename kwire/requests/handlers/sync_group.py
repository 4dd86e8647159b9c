"""SyncGroup (key 14): v0-5.

Behaviour
- Followers wait until the leader's assignment is in the log.  In a stable group the response with
  the assignment comes at once.  A member without an assignment from the leader gets zero bytes, not
  null.
- REBALANCE_IN_PROGRESS tells the member to send JoinGroup again.

Version notes: group instance ids from v3; flexible from v4; from v5 the request must have the
group's protocol type and name, else INCONSISTENT_GROUP_PROTOCOL (KIP-559).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.groups.classic.decision import sync_error
from kwire.requests.context import Context
from kwire.requests.route import Right, Route

PROTOCOL_REQUIRED_SINCE = 5

ROUTE = Route(ApiKey.SYNC_GROUP, 0, 5, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: SyncGroupRequest, context: Context
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Return the member's assignment; the response may wait for the group's leader.

    From version 5 the request must have the protocol type and name (KIP-559).
    """
    if context.api_version >= PROTOCOL_REQUIRED_SINCE and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    reply = broker.coordinators.groups.sync_group(request)
    return reply if isinstance(reply, SyncGroupResponse) else reply.wait()
