"""One scrape: the values of all metrics of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kwire.server.metrics.changes import ClusterChanges
from kwire.server.metrics.collecting import (
    cluster,
    groups,
    partitions,
    peers,
    process,
    quotas,
    replication,
    requests,
    shares,
    transactions,
    waits,
)
from kwire.server.metrics.counted import CoordinatorCounts
from kwire.server.metrics.ends import EndOffsets
from kwire.server.metrics.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kwire.broker.broker import Broker
    from kwire.server.metrics.health import Health
    from kwire.server.metrics.meters import Meters


class Scraper:
    """Reads the metrics of one broker."""

    def __init__(self, broker: Broker, meters: Meters, health: Health) -> None:
        """Count from now on; the broker has no partition and no coordinator yet.

        `meters` are those of the broker's connections, partitions and files.
        """
        self._health = health
        self._broker = broker
        self._meters = meters
        self._changes = ClusterChanges(broker)
        self.counts = CoordinatorCounts(broker)
        self.ends = EndOffsets(broker)

    async def run(self) -> None:
        """Keep what a scrape cannot wait for up to date, until cancelled."""
        await self.ends.follow()

    async def scrape(self, names: Collection[str] | None = None) -> Samples:
        """The values of all metrics now, or of `names`; the loop does other work between its steps.

        `Samples.text` then comes in pieces, for the same reason.
        """
        samples = Samples(names)
        for _ in self.steps(samples):
            await trio.lowlevel.checkpoint()
        return samples

    def steps(self, samples: Samples) -> Iterator[None]:
        """Put the values into `samples`; yields where other work may go on.

        What would take a walk over all partitions or groups is left out if nobody wants it.
        """
        broker, meters = self._broker, self._meters
        meters.fold()
        yield from requests.collect(meters, samples)
        if samples.wants(partitions.GIVEN):
            yield from partitions.collect(broker, samples)
        if samples.wants(cluster.GIVEN):
            yield from cluster.collect(broker, samples)
        replication.collect(broker, self._changes, samples)
        if samples.wants(groups.GIVEN):
            yield from groups.collect(broker, self.ends, self.counts, samples)
        shares.collect(broker, self.ends, self.counts, samples)
        yield
        transactions.collect(broker, samples)
        waits.collect(broker, samples)
        peers.collect(broker, samples)
        quotas.collect(broker, samples)
        yield
        process.collect(broker, self._health.phase, samples)
