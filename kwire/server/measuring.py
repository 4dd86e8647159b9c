"""Puts metrics into a broker that starts, if its settings have `metrics.port`.

`kwire.server.server` calls the same functions for every broker.  Without metrics they change
nothing: a broker that is not measured consists of the usual classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.server.network.listener import ConnectionServer

if TYPE_CHECKING:
    import trio

    from kwire.broker.broker import Broker
    from kwire.log.directory.files import Files
    from kwire.settings import BrokerConfig
    from kwire.testing.hooks.control.service import Control


class Unmeasured:
    """A broker without metrics."""

    def broker_class(self, kind: type[Broker]) -> type[Broker]:
        """The class of the broker."""
        return kind

    def files(self, files: Files | None) -> Files | None:
        """The files of the broker; None for those of the system."""
        return files

    async def begin(self, config: BrokerConfig, nursery: trio.Nursery) -> BrokerConfig:
        """Serve the endpoint; returns the settings with its port.  Raises OSError."""
        return config

    def connections(
        self, broker: Broker, control: Control | None, nursery: trio.Nursery
    ) -> ConnectionServer:
        """The server of the connections of the opened broker, whose tasks `nursery` may have."""
        return ConnectionServer(broker, control)

    def serving(self) -> None:
        """Called when all listeners accept connections."""

    def stopping(self) -> None:
        """Called when the broker begins to stop."""


class MeasuredBroker(Unmeasured):
    """A broker with metrics."""

    def __init__(self) -> None:
        from kwire.server.metrics.service import Metrics

        self._metrics = Metrics()

    def broker_class(self, kind: type[Broker]) -> type[Broker]:
        return self._metrics.broker_class(kind)

    def files(self, files: Files | None) -> Files | None:
        return self._metrics.files(files)

    async def begin(self, config: BrokerConfig, nursery: trio.Nursery) -> BrokerConfig:
        return await self._metrics.begin(config, nursery)

    def connections(
        self, broker: Broker, control: Control | None, nursery: trio.Nursery
    ) -> ConnectionServer:
        from kwire.server.network.measured_listener import MeasuredConnectionServer

        self._metrics.opened(broker, nursery)
        return MeasuredConnectionServer(broker, self._metrics.meters, control)

    def serving(self) -> None:
        self._metrics.serving()

    def stopping(self) -> None:
        self._metrics.stopping()


def measuring(config: BrokerConfig) -> Unmeasured:
    """What measures the broker with these settings."""
    return Unmeasured() if config.metrics.metrics_port is None else MeasuredBroker()
