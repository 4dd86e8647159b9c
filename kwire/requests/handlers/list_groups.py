"""ListGroups (key 16): v0-5.

Behaviour
- The response has the groups that this broker coordinates.  While it loads some of them, it has
  COORDINATOR_LOAD_IN_PROGRESS and no group.

Version notes: flexible from v3; states and a filter by state from v4 (KIP-518); types and a filter
by type from v5 (KIP-848).
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.LIST_GROUPS, 0, 5, Right(AclOperation.DESCRIBE, ResourceType.GROUP))


def handle(broker: Broker, request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """Return the groups that this broker coordinates and the filters match."""
    error, groups = broker.coordinators.groups.list_groups(
        request.states_filter, request.types_filter
    )
    return ListGroupsResponse(error_code=error, groups=groups)


# -- rights


def guard(access: Access, request: ListGroupsRequest, proceed: Proceed) -> Response:
    """List all groups to a sender that may describe the cluster.

    Any other sender gets the groups that it may describe, and no error.
    """
    if access.on_cluster(AclOperation.DESCRIBE, quiet=True):
        return proceed(request)

    def merge(response: ListGroupsResponse) -> ListGroupsResponse:
        """Remove the groups that the sender may not describe."""
        response.groups = [
            group
            for group in response.groups
            if access.may(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, quiet=True)
        ]
        return response

    return reshaped(proceed(request), merge)
