"""The configs of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from kwire.settings.definition import MEDIUM, Settings, integer, strings
from kwire.settings.effects import TELEMETRY

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000


class ClientMetricsSettings(Settings, effect=TELEMETRY):
    """Which metrics clients push, how often, and which clients are meant."""

    interval_ms = integer(300_000, MEDIUM)
    match = strings((), MEDIUM)
    metrics = strings((), MEDIUM)
