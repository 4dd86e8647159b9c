"""Subscriptions and clients that the cases on client telemetry share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from hashlib import md5

from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest
from kwire.conformance.wire.cases.describe_configs import CLIENT_METRICS
from kwire.conformance.wire.cases.incremental_alter_configs import DELETE, SET, alter
from kwire.conformance.wire.stage import Stage

SETTINGS = ("interval.ms", "match", "metrics")


@contextlib.contextmanager
def subscription(stage: Stage, **settings: str) -> Iterator[None]:
    """Create a subscription for the time of the block; `interval_ms` sets interval.ms."""
    name = stage.name("subscription")
    configs = {key.replace("_", "."): value for key, value in settings.items()}
    stage.ask(alter(CLIENT_METRICS, name, *((key, SET, text) for key, text in configs.items())))
    stage.await_cluster_changes()
    try:
        yield
    finally:
        unsubscribe(stage, name)


def unsubscribe(stage: Stage, name: str) -> None:
    """Delete a subscription; the response is not compared."""
    stage.ask(alter(CLIENT_METRICS, name, *((key, DELETE, None) for key in SETTINGS)))
    stage.await_cluster_changes()


def instance_id(stage: Stage, number: int = 0) -> bytes:
    """Return a client instance id that only this case uses."""
    return md5(f"{stage.prefix} {number}".encode(), usedforsecurity=False).digest()


def introduce(stage: Stage, software: str) -> None:
    """Send ApiVersions with this software name, which subscriptions can match."""
    stage.send(ApiVersionsRequest(software, "1.0"), 3)


def get_subscription(stage: Stage, client: bytes) -> GetTelemetrySubscriptionsResponse:
    """Request this client's subscription; the response is compared like those of the case."""
    reply: GetTelemetrySubscriptionsResponse = stage.send(GetTelemetrySubscriptionsRequest(client))
    return reply


def push(
    client: bytes,
    subscription_id: int,
    metrics: bytes = b"",
    codec: int = 0,
    *,
    terminating: bool = False,
) -> PushTelemetryRequest:
    """Return a PushTelemetry request; codec 0 is no compression."""
    return PushTelemetryRequest(client, subscription_id, terminating, codec, metrics)
