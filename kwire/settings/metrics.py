"""The settings of the metrics endpoint, which Apache Kafka does not have.

Apache Kafka's metrics are read by JMX, which has its settings outside of server.properties.  So
`BrokerConfig` does not declare these, and DescribeConfigs shows them only if they are given:
`kwire top` finds the endpoint of each broker by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.settings.definition import MEDIUM, Settings, optional_integer, string
from kwire.settings.error import ConfigError

PORT: Final = "metrics.port"
HOST: Final = "metrics.host"
PORT_MAX: Final = 65_535


class MetricsSettings(Settings):
    """The address of the endpoint; without a port there is none, and nothing is measured."""

    metrics_host = string(
        "127.0.0.1",
        MEDIUM,
        doc="The address at which the broker serves its metrics; empty for all addresses. They are "
        "not encrypted, and everybody who can connect may read them.",
    )
    metrics_port = optional_integer(
        MEDIUM,
        doc="The port at which the broker serves its metrics over HTTP (docs/metrics.md); 0 takes "
        "a free port. Without it nothing is measured.",
    )

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raise ConfigError."""
        super().__init__({name: text for name, text in given.items() if name in self.DEFINITIONS})
        port = self.metrics_port
        if port is not None and not 0 <= port <= PORT_MAX:
            raise ConfigError(f"metrics.port must be a port from 0 to {PORT_MAX}, not {port}")
        if port is None and self.given(HOST) is not None:
            raise ConfigError("metrics.host needs metrics.port, without which nothing is served")
