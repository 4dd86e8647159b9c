"""PushTelemetry (key 72): v0 (KIP-714).

Behaviour
- Stores a client's metrics, usually OTLP's MetricsData.  kwire.broker.telemetry.instances says what
  it refuses.  A payload that cannot be decompressed, or is larger than telemetry.max.bytes when
  decompressed, gives INVALID_RECORD, and clients stop pushing.
- The payload is stored unparsed: see kwire.broker.telemetry.topic.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.requests.context import Context
from kwire.requests.route import NOTHING, Route
from kwire.requests.routes import not_served

ROUTE = Route(ApiKey.PUSH_TELEMETRY, 0, 0, NOTHING, for_client_metrics=True)


def handle(
    broker: Broker, request: PushTelemetryRequest, context: Context
) -> PushTelemetryResponse:
    """Store the client's metrics, and return the error code.

    Raises CloseConnection on a broker with ZooKeeper, where the API does not exist.
    """
    if broker.config.zookeeper_connect is not None:
        raise not_served(ApiKey.PUSH_TELEMETRY)
    return PushTelemetryResponse(error_code=broker.telemetry.push(request, context))
