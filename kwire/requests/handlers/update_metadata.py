"""UpdateMetadata (key 6): v0-8.

Behaviour
- Sent by the controller of a cluster: the live brokers, and the changed partitions.
  kwire.cluster.replication.metadata_update applies it.
- A broker without such a controller closes the connection, as for an API key that does not exist.

Version notes: endpoints from v1; racks from v2; listeners from v3; offline replicas from v4; the
broker epoch, and partitions by topic, from v5; flexible from v6; topic ids from v7; KRaft
controllers send v8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.requests.route import Right, Route
from kwire.requests.routes import not_served

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
    from kwire.requests.context import Context


ROUTE = Route(
    ApiKey.UPDATE_METADATA,
    0,
    8,
    Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    in_cluster_only=True,
)


def handle(
    broker: Broker, request: UpdateMetadataRequest, context: Context
) -> UpdateMetadataResponse:
    """Apply the controller's request: store the live brokers and the changed partitions.

    Raises CloseConnection on a broker without such a controller.
    """
    if broker.membership.controller_requests is None:
        raise not_served(context.api_key)
    return broker.membership.controller_requests.update_metadata(request)
