"""The metrics of one broker put together: what measures, and the endpoint that shows it.

`kwire.server.server` makes a `Metrics` for a broker with `metrics.port`, and none otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import trio

from kwire.log.directory.files import Files
from kwire.server.http.server import HttpServer
from kwire.server.metrics.disk import DiskWatch
from kwire.server.metrics.endpoint import LIMITS, MetricsEndpoint
from kwire.server.metrics.health import Health, Phase
from kwire.server.metrics.meters import Meters
from kwire.server.metrics.partition import measured_partitions
from kwire.server.metrics.scrape import Scraper

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.settings import BrokerConfig

TICK_S: Final = 0.05
"""The time between two runs of the loop's watch."""

TICKS_A_FOLD: Final = 20
"""Connections are folded once a second."""


class Metrics:
    """The meters, the endpoint and the health of one broker."""

    def __init__(self) -> None:
        self.meters = Meters()
        self.health = Health()
        self._disk: DiskWatch | None = None
        self._endpoint: MetricsEndpoint | None = None
        self._scraper: Scraper | None = None

    async def begin(self, config: BrokerConfig, nursery: trio.Nursery) -> BrokerConfig:
        """Serve the endpoint and watch the loop; returns the settings with the endpoint's port.

        Raises OSError if the port is not available.
        """
        host, port = config.metrics.metrics_host, config.metrics.metrics_port
        assert port is not None, "only a broker with metrics.port has metrics"
        self._endpoint = MetricsEndpoint(host, self.health, self.meters)
        server = HttpServer("metrics", self._endpoint.answer, LIMITS)
        bound: int = await nursery.start(server.serve, host, port)
        nursery.start_soon(self._watch)
        return config if bound == port else config.with_metrics_port(bound)

    def files(self, files: Files | None) -> Files:
        """The files of the broker, `files` or the system's, whose calls are timed from now on."""
        files = files or Files()
        self._disk = DiskWatch(files, self.meters.disk, self.meters.clock_ns)
        return files

    def broker_class(self, kind: type[Broker]) -> type[Broker]:
        """A subclass of `kind` that is measured from its creation on."""

        def build(broker: Broker, *arguments: Any) -> None:  # noqa: ANN401 - those of Broker
            kind.__init__(broker, *arguments)
            broker.hosted.make_partition = measured_partitions(self.meters)
            self.meters.hosted = cast(Any, broker.hosted.by_topic)  # made by that function
            self._scraper = Scraper(broker, self.meters, self.health)

        return type("MeasuredBroker", (kind,), {"__init__": build})

    def opened(self, broker: Broker, nursery: trio.Nursery) -> None:
        """Show the values of this broker, whose logs and metadata are read."""
        assert self._endpoint is not None
        assert self._scraper is not None
        self.health.broker = broker
        nursery.start_soon(self._scraper.run)
        self._endpoint.scrape = self._scraper.scrape
        self._endpoint.rebalances = self._scraper.counts.last_rebalances

    def serving(self) -> None:
        """Note that all listeners accept connections."""
        self.health.phase = Phase.SERVING

    def stopping(self) -> None:
        """Note that the listeners are closed."""
        self.health.phase = Phase.STOPPING

    async def _watch(self) -> None:
        """Measure how late the loop is, sample writes, and fold the connections' counts."""
        loop, ticks = self.meters.loop, 0
        while True:
            due_s = trio.current_time() + TICK_S
            await trio.sleep_until(due_s)
            # On trio's clock, which tests may hold: held time is no stall.
            late_ns = int((trio.current_time() - due_s) * 1e9)
            loop.woke(self.meters.clock_ns(), max(0, late_ns))
            if self._disk is not None:
                self._disk.tick()
            ticks += 1
            if ticks % TICKS_A_FOLD == 0:
                self.meters.fold_connections()
