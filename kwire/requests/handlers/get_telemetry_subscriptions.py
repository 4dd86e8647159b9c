"""GetTelemetrySubscriptions (key 71): v0 (KIP-714).

Behaviour
- Tells a client which metrics to push, how often, and the id of that subscription; a client without
  an id is given one.  Nobody is refused for want of rights.
- What is asked for are prefixes of names: `*` alone is all, none at all is no push.
- Before its interval is over a client is told THROTTLING_QUOTA_EXCEEDED, and nothing else.
- Members of a cluster on ZooKeeper do not serve it, nor PushTelemetry: Apache Kafka 3.9 does not.
- Codecs are named as Apache Kafka prefers them.  Counters are wanted as differences.
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
from kwire.requests.routes import not_served

ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


def handle(
    broker: Broker, request: GetTelemetrySubscriptionsRequest, context: Context
) -> GetTelemetrySubscriptionsResponse:
    if broker.config.zookeeper_connect is not None:
        raise not_served(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
    telemetry = broker.telemetry
    instance_id, asked = telemetry.ask(bytes(request.client_instance_id), context)
    if isinstance(asked, ErrorCode):
        return GetTelemetrySubscriptionsResponse(error_code=asked)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=asked.subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=asked.interval_ms,
        telemetry_max_bytes=telemetry.size_bytes_max,
        delta_temporality=True,
        requested_metrics=list(asked.metrics),
    )
