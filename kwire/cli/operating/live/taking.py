"""Takes samples of a cluster: its progress by Kafka's requests, and metrics over HTTP."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from kwire.cli.operating.live.from_metrics import NAMES
from kwire.cli.operating.live.sample import BrokerMetrics, TopSample
from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError
from kwire.client.inspection.progress import progress
from kwire.client.metrics.endpoints import ScrapeTarget, endpoints_of
from kwire.client.metrics.scrape import ScrapeFailed, scrape, slow

AT_ONCE_MAX: Final = 64
"""The most endpoints that are asked at the same time, on a thread each."""
LOOK_AGAIN_S: Final = 30.0
"""How often the brokers are asked where their endpoints are."""


class SampleTaker:
    """Takes samples of one cluster; not for several threads at once."""

    def __init__(self, cluster: Cluster, urls: Mapping[int, str] | None = None) -> None:
        """`urls` are endpoints by broker id; without them, the brokers are asked for theirs."""
        self._cluster = cluster
        self._given = {
            broker_id: ScrapeTarget(broker_id, url) for broker_id, url in (urls or {}).items()
        }
        self._endpoints: dict[int, ScrapeTarget] = {}
        self._looked_at_s = float("-inf")

    def take(self) -> TopSample:
        """A sample of now.  Raises ClientError if no broker answers."""
        taken = progress(self._cluster)
        return TopSample(taken, self._metrics(), time.time())

    def _metrics(self) -> dict[int, BrokerMetrics]:
        """Ask all endpoints at the same time."""
        endpoints = self._known_endpoints()
        ask = partial(metrics_of, timeout_s=self._cluster.timeout_s)
        with ThreadPoolExecutor(max_workers=min(AT_ONCE_MAX, max(1, len(endpoints)))) as pool:
            return dict(zip(endpoints, pool.map(ask, endpoints.values()), strict=True))

    def _known_endpoints(self) -> dict[int, ScrapeTarget]:
        """The endpoints, which brokers are asked for again after a while: one may have been
        restarted with another."""
        if self._given:
            return self._given
        now_s = time.monotonic()
        if now_s - self._looked_at_s >= LOOK_AGAIN_S:
            self._looked_at_s = now_s
            try:
                self._endpoints = endpoints_of(self._cluster)
            except ClientError as error:
                self._cluster.tell_of_trouble(error)
        return self._endpoints


def metrics_of(endpoint: ScrapeTarget, timeout_s: float) -> BrokerMetrics:
    """What one endpoint says, or why it says nothing.

    An endpoint that is not kwire's has no `/slow`, so that is no trouble.
    """
    if endpoint.url is None:
        return BrokerMetrics(trouble=endpoint.reason)
    try:
        scraped = scrape(endpoint.url, NAMES, timeout_s)
    except ScrapeFailed as error:
        return BrokerMetrics(trouble=str(error))
    try:
        return BrokerMetrics(scraped, slow(endpoint.url, timeout_s))
    except ScrapeFailed:
        return BrokerMetrics(scraped)
