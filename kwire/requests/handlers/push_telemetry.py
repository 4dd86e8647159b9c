"""PushTelemetry (key 72): v0 (KIP-714).

Behaviour
- Takes a client's metrics, OTLP's MetricsData as a rule; kwire.broker.telemetry.instances has
  what is refused, and when.  A payload that cannot be decompressed, or is larger than
  telemetry.max.bytes then, is INVALID_RECORD: clients stop pushing on that.
- Whether it is OTLP is not looked at: it is kept as it is.  See kwire.broker.telemetry.topic.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.requests.context import Context
from kwire.requests.routes import not_served


def handle(
    broker: Broker, request: PushTelemetryRequest, context: Context
) -> PushTelemetryResponse:
    if broker.config.zookeeper_connect is not None:
        raise not_served(ApiKey.PUSH_TELEMETRY)
    return PushTelemetryResponse(error_code=broker.telemetry.push(request, context))
