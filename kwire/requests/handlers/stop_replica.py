"""StopReplica (key 5): v0-4.

Behaviour
- From the controller of a cluster: partitions that this broker is to follow no longer, or to
  remove.
  kwire.cluster.replication.manager says what is refused.
- A broker alone does not serve it: the connection is closed, as for a key that does not exist.

Version notes: the broker's epoch from v1; flexible from v2; leader epochs, and what to remove for
each partition, from v3; from KRaft controllers v4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.requests.routes import not_served

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
    from kwire.requests.context import Context


def handle(broker: Broker, request: StopReplicaRequest, context: Context) -> StopReplicaResponse:
    if broker.membership.replication is None:
        raise not_served(context.api_key)
    return broker.membership.replication.stop_replica(request)
