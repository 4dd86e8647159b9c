"""DescribeCluster (key 60): v0-2.

Behaviour
- The response has the cluster id, the controller, and the brokers with the addresses that they
  advertise for the client's listener.
- Endpoint type 1 stands for brokers.  MISMATCHED_ENDPOINT_TYPE for 2 (controllers),
  UNSUPPORTED_ENDPOINT_TYPE for others.

- A request may ask for fenced brokers too: those whose registration is kept, and that are not live.
  Brokers that share the process with the metadata have such registrations.

Version notes: v1 has the endpoint type (KIP-919); v2 may request fenced brokers (KIP-1073).
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.guards.visibility import cluster_operations
from kwire.requests.route import Right, Route
from kwire.security.operations import CLUSTER_OPERATIONS, NOT_ASKED

_BROKERS, _CONTROLLERS = 1, 2

ROUTE = Route(ApiKey.DESCRIBE_CLUSTER, 0, 2, Right(AclOperation.DESCRIBE, ResourceType.CLUSTER))


def handle(
    broker: Broker, request: DescribeClusterRequest, context: Context
) -> DescribeClusterResponse:
    """Return the cluster id, the controller, and the brokers with their endpoints.

    A broker without an endpoint on the client's listener is left out.
    """
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    image = broker.image
    listed = [(each, False) for each in image.brokers.values()]
    if request.include_fenced_brokers:
        listed += [
            (each, True) for each in image.registered.values() if each.id not in image.brokers
        ]
    with_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=broker.controller_seen,
        brokers=[
            DescribeClusterBroker(each.id, endpoint.host, endpoint.port, each.rack, is_fenced)
            for each, is_fenced in listed
            if (endpoint := each.endpoint(context.listener)) is not None
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS if with_operations else NOT_ASKED,
    )


# -- rights


def guard(access: Access, request: DescribeClusterRequest, proceed: Proceed) -> Response:
    """Replace the authorized operations, if requested, with those of the sender."""

    def merge(response: DescribeClusterResponse) -> DescribeClusterResponse:
        """Set the sender's operations; the handler has filled in all of them."""
        if response.cluster_authorized_operations != NOT_ASKED:
            response.cluster_authorized_operations = cluster_operations(access)
        return response

    return reshaped(proceed(request), merge)
