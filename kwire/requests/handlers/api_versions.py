"""ApiVersions (key 18): v0-5.

Behaviour
- The response lists every route with the versions that it is advertised at.
- It lists GetTelemetrySubscriptions and PushTelemetry while a client metrics subscription exists;
  Apache Kafka lists them if it has a plug-in for them.  Every librdkafka client that sees them
  sends them at once, and says so on its standard error.
- Beside controllers of Apache Kafka (KRaft) it lists no requests between brokers and controllers,
  and a request for the controllers with the versions that both they and the broker know.  Until
  the first such request it does not know theirs, as Apache Kafka's broker.
- On ZooKeeper it does not list the requests about a quorum of controllers, as Apache Kafka 3.9.
- A request of an unknown version gets a response: the v0 body with UNSUPPORTED_VERSION and the
  range of ApiVersions only, so that any client can use a lower version.
- The response header always has version 0 (KIP-511), as the client does not know the version yet.
- From v3 the request has the client's software name and version.  If one of them does not match
  `[a-zA-Z0-9](?:[a-zA-Z0-9\\-.]*[a-zA-Z0-9])?`, the answer is INVALID_REQUEST and an empty list.
- From v5 the request may name the cluster and the broker that the client means to reach (KIP-1242).
  The answer is REBOOTSTRAP_REQUIRED and an empty list if this is another cluster or broker,
  INVALID_REQUEST if only one of the two is named.
- The finalized features have an epoch.  Clients believe the highest epoch that they have seen, and
  none below 0.  On ZooKeeper it is the version of /feature, as in Apache Kafka 3.9; with
  controllers of Apache Kafka it is the offset of the newest metadata record.

Version notes: v3 is flexible and has features (KIP-584); from v4 it lists features that may have
level 0 as supported (KAFKA-17011: older clients would fail on them); v5 has the client's cluster id
and node id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from kwire.broker.broker import Broker
from kwire.cluster.metadata.features import SUPPORTED
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kwire.requests.context import Context
from kwire.requests.route import NOTHING, Route
from kwire.requests.routes import CLUSTER_ROUTES, ROUTES

FEATURES_SINCE = 3
LEVEL_0_SINCE = 4
NAMES_BROKER_SINCE = 5
_BY_CONTROLLER = frozenset(int(route.api_key) for route in ROUTES if route.by_controller)
NO_NODE = -1
"""The node id of a request that does not name the broker."""

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@cache
def advertised_versions(
    *, in_cluster: bool = False, with_telemetry: bool = False, on_zookeeper: bool = False
) -> list[ApiVersion]:
    """The version ranges that clients see, sorted by API key."""
    versions = []
    for route in sorted((*ROUTES, *CLUSTER_ROUTES) if in_cluster else ROUTES):
        if (route.for_client_metrics and not with_telemetry) or (
            route.about_quorum and on_zookeeper
        ):
            continue
        lowest = route.min_version if route.advertised_from is None else route.advertised_from
        versions.append(
            ApiVersion(api_key=route.api_key, min_version=lowest, max_version=route.max_version)
        )
    return versions


ROUTE = Route(ApiKey.API_VERSIONS, 0, 5, NOTHING)


def handle(broker: Broker, request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Return the advertised API versions and features; note the client's software in `context`.

    INVALID_REQUEST if the software's name or version has characters that Kafka does not allow.
    """
    on_zookeeper = broker.config.zookeeper_connect is not None
    forwarding = broker.membership.forwarding
    advertised = advertised_versions(
        in_cluster=broker.membership.replication is not None and forwarding is None,
        with_telemetry=broker.configs.asks_for_metrics and not on_zookeeper,
        on_zookeeper=on_zookeeper,
    )
    if forwarding is not None:
        advertised = _shared_with(forwarding.versions, advertised)
    if context.api_version < FEATURES_SINCE:
        return ApiVersionsResponse(api_keys=advertised)
    names = (request.client_software_name, request.client_software_version)
    if not all(_SOFTWARE_NAME.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if context.api_version >= NAMES_BROKER_SINCE:
        error = _error_of_destination(broker, request)
        if error is not ErrorCode.NONE:
            return ApiVersionsResponse(error_code=error)
    context.client_software_name, context.client_software_version = names
    features = broker.image.features
    context.features_epoch = features.epoch
    return ApiVersionsResponse(
        api_keys=advertised,
        supported_features=[
            SupportedFeatureKey(name, low, high)
            for name, (low, high) in SUPPORTED.items()
            if low > 0 or context.api_version >= LEVEL_0_SINCE
        ],
        finalized_features_epoch=(
            features.epoch if forwarding is None else broker.image.version - 1
        ),
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in features.in_force.items()
        ],
    )


def _shared_with(
    controllers: Mapping[int, tuple[int, int]], advertised: list[ApiVersion]
) -> list[ApiVersion]:
    """Return what is advertised, with only those versions of forwarded requests that they know.

    `controllers` are their versions, empty if these are not known.
    """
    if not controllers:
        return advertised
    shared = []
    for each in advertised:
        low, high = each.min_version, each.max_version
        if each.api_key in _BY_CONTROLLER:
            theirs = controllers.get(each.api_key, (0, -1))
            low, high = max(low, theirs[0]), min(high, theirs[1])
        if low <= high:
            shared.append(ApiVersion(each.api_key, low, high))
    return shared


def _error_of_destination(broker: Broker, request: ApiVersionsRequest) -> ErrorCode:
    """Return the error if the request names another broker than this one, or names it partly."""
    if (request.cluster_id is None) != (request.node_id == NO_NODE):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is None:
        return ErrorCode.NONE
    is_meant = request.cluster_id == broker.image.cluster_id and request.node_id == broker.node_id
    return ErrorCode.NONE if is_meant else ErrorCode.REBOOTSTRAP_REQUIRED


def unsupported_version() -> ApiVersionsResponse:
    """The v0 response to an ApiVersions request of a version that this broker does not know."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(
                api_key=ROUTE.api_key,
                min_version=ROUTE.min_version,
                max_version=ROUTE.max_version,
            )
        ],
    )
