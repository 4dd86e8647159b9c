"""ListGroups (key 16): v0-5.

Behaviour
- The response has the groups that this broker coordinates.  While it loads some of them, it has
  COORDINATOR_LOAD_IN_PROGRESS and no group.

Version notes: flexible from v3; states and a filter by state from v4 (KIP-518); types and a filter
by type from v5 (KIP-848).
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.requests.context import Context


def handle(broker: Broker, request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    error, groups = broker.coordinators.groups.list_groups(
        request.states_filter, request.types_filter
    )
    return ListGroupsResponse(error_code=error, groups=groups)
