"""GetTelemetrySubscriptions (key 71): v0 (KIP-714).

Behaviour
- The response says which metrics the client shall push and how often, and has the id of this
  subscription.  A client without an id gets one.  No right is needed.
- The metrics are prefixes of names: `*` alone stands for all, an empty list for no push.
- A client that sends the request before its interval is over gets only THROTTLING_QUOTA_EXCEEDED.
- Members of a cluster on ZooKeeper do not serve it, nor PushTelemetry, like Apache Kafka 3.9.
- The codecs stand in Apache Kafka's order of preference.  Counters are pushed as differences.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.compression import Compression
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import NOTHING, Route
from kwire.requests.routes import not_served

ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)

ROUTE = Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, NOTHING, for_client_metrics=True)


def handle(
    broker: Broker, request: GetTelemetrySubscriptionsRequest, context: Context
) -> GetTelemetrySubscriptionsResponse:
    """Return the metrics that the client shall push, and how often.

    Raises CloseConnection on a broker with ZooKeeper, where the API does not exist.
    """
    if broker.config.zookeeper_connect is not None:
        raise not_served(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
    telemetry = broker.telemetry
    instance_id, subscription = telemetry.ask(bytes(request.client_instance_id), context)
    if isinstance(subscription, ErrorCode):
        return GetTelemetrySubscriptionsResponse(error_code=subscription)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=telemetry.size_bytes_max,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )
