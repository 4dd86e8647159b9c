"""ListConfigResources (key 74): v0-1.

Behaviour
- The response has the resources with configs: every topic, the cluster's brokers and their loggers,
  and the groups and client metrics subscriptions on which a config is set.
- An empty list of types requests all.  Any other type gives UNSUPPORTED_VERSION and no resources.

Version notes: v0 lists client metrics subscriptions only (KIP-1000); v1 has types (KIP-1142).
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.settings import ConfigResourceType


def _with_configs(kind: ConfigResourceType) -> Callable[[ClusterImage], list[str]]:
    """Return a function that lists the resources of one type on which a config is set."""

    def names(image: ClusterImage) -> list[str]:
        return sorted(name for resource, name in image.configs if resource == kind)

    return names


def _brokers(image: ClusterImage) -> list[str]:
    return [str(broker_id) for broker_id in image.brokers]


_NAMES: dict[int, Callable[[ClusterImage], list[str]]] = {
    ConfigResourceType.GROUP: _with_configs(ConfigResourceType.GROUP),
    ConfigResourceType.CLIENT_METRICS: _with_configs(ConfigResourceType.CLIENT_METRICS),
    ConfigResourceType.BROKER_LOGGER: _brokers,
    ConfigResourceType.BROKER: _brokers,
    ConfigResourceType.TOPIC: lambda image: sorted(image.topics),
}

ROUTE = Route(
    ApiKey.LIST_CONFIG_RESOURCES, 0, 1, Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
)


def handle(
    broker: Broker, request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse:
    """Return the names of the resources of the requested types that have configs."""
    kinds = set(request.resource_types) or set(_NAMES)
    if context.api_version == 0:
        kinds = {ConfigResourceType.CLIENT_METRICS}
    if not kinds <= _NAMES.keys():
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(name, kind)
            for kind, names in _NAMES.items()
            if kind in kinds
            for name in names(broker.image)
        ]
    )
