"""LeaderAndIsr (key 4): v0-7.

Behaviour
- Sent by the controller of a cluster: the partitions that this broker leads or follows, with their
  leader epochs.  kwire.cluster.replication.controller_requests says what it refuses.
- A broker without such a controller closes the connection, as for an API key that does not exist.

Version notes: new partitions from v1; the broker epoch, and partitions by topic, from v2;
reassigned replicas from v3; flexible from v4; topic ids, also in the response, from v5; the leader
recovery state from v6; KRaft controllers send v7.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.requests.route import Right, Route
from kwire.requests.routes import not_served

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from kwire.requests.context import Context


ROUTE = Route(
    ApiKey.LEADER_AND_ISR,
    0,
    7,
    Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    in_cluster_only=True,
)


def handle(
    broker: Broker, request: LeaderAndIsrRequest, context: Context
) -> LeaderAndIsrResponse | Awaitable[LeaderAndIsrResponse]:
    """Apply the controller's request: begin to lead or follow the partitions that it names.

    Raises CloseConnection on a broker without such a controller.
    """
    if broker.membership.controller_requests is None:
        raise not_served(context.api_key)
    return broker.membership.leader_and_isr(request, context.api_version)
