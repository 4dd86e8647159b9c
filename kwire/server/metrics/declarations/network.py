"""Metrics of connections, requests that wait, and quotas."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, gauge

NETWORK: Final[tuple[Metric, ...]] = (
    gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "delayedOperation",
        "requests",
        "Requests that wait, by what they wait for",
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=* Value",
    ),
)
