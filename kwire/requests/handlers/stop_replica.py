"""StopReplica (key 5): v0-4.

Behaviour
- Sent by the controller of a cluster: this broker stops following partitions, or deletes them.
  kwire.cluster.replication.controller_requests says what it refuses.
- A broker without such a controller closes the connection, as for an API key that does not exist.

Version notes: the broker epoch from v1; flexible from v2; leader epochs, and a deletion flag per
partition, from v3; KRaft controllers send v4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.requests.route import Right, Route
from kwire.requests.routes import not_served

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
    from kwire.requests.context import Context


ROUTE = Route(
    ApiKey.STOP_REPLICA,
    0,
    4,
    Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    in_cluster_only=True,
)


def handle(broker: Broker, request: StopReplicaRequest, context: Context) -> StopReplicaResponse:
    """Apply the controller's request: stop to follow partitions, or delete them.

    Raises CloseConnection on a broker without such a controller.
    """
    if broker.membership.controller_requests is None:
        raise not_served(context.api_key)
    return broker.membership.controller_requests.stop_replica(request)
