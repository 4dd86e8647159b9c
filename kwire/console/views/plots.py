"""The history: its sampler, which runs beside the pages, and its values as JSON for plots."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

import trio
from starlette.responses import Response

from kwire.client.errors import ClientError
from kwire.client.metrics.endpoints import endpoints_of
from kwire.console.cluster.topics import KnownTopics, known_topics
from kwire.console.history.observed import Observed, observed_by
from kwire.console.history.sampler import (
    BROKER_SIZE,
    CLUSTER_RATE,
    CLUSTER_SIZE,
    GROUP_LAG,
    GROUP_RATE,
    METADATA_INTERVAL_S,
    REQUEST_RATE,
    REQUEST_TIME,
    TOPIC_RATE,
    TOPIC_SIZE,
    HistorySampler,
)
from kwire.console.history.series import SampleHistory, SeriesKey, thinned
from kwire.console.pool import FRESH_S
from kwire.console.site import Site, SitePage, Visit
from kwire.console.text import visible

log = logging.getLogger("kwire.console")

PART: Final = "history"
POINTS_MAX: Final = 360
"""Points of one line of a plot: one for each three pixels of a wide one."""
SLOW_QUANTILE: Final = "0.99"
LINES_MAX: Final = 6
"""Lines of a plot: the colours of the style sheet."""

MANY_TOPICS: Final = 500
"""From how many topics on a page does not wait for their newest metadata."""

ENDPOINTS_INTERVAL_S: Final = 60.0
"""The time between two searches for metrics endpoints."""

UNITS: Final[Mapping[str, str]] = {
    TOPIC_RATE: "records/s",
    CLUSTER_RATE: "records/s",
    GROUP_RATE: "records/s",
    GROUP_LAG: "records",
    TOPIC_SIZE: "bytes",
    CLUSTER_SIZE: "bytes",
    BROKER_SIZE: "bytes",
    REQUEST_RATE: "requests/s",
    REQUEST_TIME: "ms",
}
"""The unit of each kind of series."""


def sampler_of(site: Site) -> HistorySampler:
    """The sampler of a site.  The first call adds it to what runs beside the pages."""
    sampler = site.parts.get(PART)
    if sampler is None:
        sampler = HistorySampler(
            site.pool.connect,
            SampleHistory(),
            lambda: time.time_ns() // 1_000_000,
            lambda: site.metrics,
            site.pool.pages.wait,
        )
        site.parts[PART] = sampler
    return sampler


async def observed_on(site: Site) -> Observed | None:
    """What the brokers' endpoints tell of clients and groups; None if the site knows none."""
    if not site.metrics:
        return None
    return await trio.to_thread.run_sync(observed_by, site.metrics, abandon_on_cancel=True)


async def all_topics(site: Site, fresh_s: float = FRESH_S) -> KnownTopics:
    """All topics, as of the last `fresh_s` seconds; pages and samples share the requests.

    If there are many, older ones are given while a request for new ones goes on.
    """
    return await site.pool.cached(
        known_topics, fresh_s=fresh_s, is_large=lambda known: len(known.overviews) >= MANY_TOPICS
    )


async def keep_sampling(site: Site) -> None:
    """Take a sample each five seconds, as long as the console runs."""
    sampler = sampler_of(site)
    while True:
        try:
            # The list of topics needs the same metadata: one request is for both.
            known = await all_topics(site, METADATA_INTERVAL_S)
        except ClientError as error:
            sampler.trouble = str(error)
        else:
            await trio.to_thread.run_sync(sampler.sample, known.metadata, abandon_on_cancel=True)
        await trio.sleep(sampler.pause_s)


async def keep_finding_metrics(site: Site) -> None:
    """Find the metrics endpoints of the brokers by their settings, again each minute.

    Endpoints that the console was started with are kept as they are.
    """
    if site.metrics:
        return
    while True:
        try:
            found = await site.pool.ask(endpoints_of)
        except ClientError as error:  # pages say so, too
            log.info("the metrics endpoints of the brokers are not found: %s", error)
        else:
            site.metrics = tuple(each.url for each in found.values() if each.url is not None)
        await trio.sleep(ENDPOINTS_INTERVAL_S)


async def history(visit: Visit) -> Response:
    """The series of a kind and a name as JSON, with the highest ones if there are many."""
    kind, name = visit.query.get("kind", ""), visit.query.get("name", "")
    sampler = sampler_of(visit.site)
    if kind not in UNITS:
        return visit.json({"error": f"the kinds are {', '.join(UNITS)}"}, 404)
    return visit.json(
        {
            "unit": UNITS[kind],
            "lines": lines_of(sampler.history, kind, name),
            "trouble": sampler.trouble or sampler.metrics_trouble,
            "now": sampler.history.last_ms,
        }
    )


def lines_of(history: SampleHistory, kind: str, name: str) -> list[dict[str, Any]]:
    """The lines of a plot: the series of the name, then its parts, the highest first."""
    if name or kind in (CLUSTER_RATE, CLUSTER_SIZE):
        keys = history.keys(kind, name)
    elif kind == REQUEST_TIME:
        keys = _of_busy_apis(history)
    elif kind in (REQUEST_RATE, BROKER_SIZE):
        keys = history.keys(kind)
    else:
        keys = []
    whole, parts = [key for key in keys if not key.part], [key for key in keys if key.part]
    if len(whole) > LINES_MAX:
        whole.sort(key=lambda key: -(history.last(key) or 0.0))
    if kind != REQUEST_TIME:
        parts.sort(key=lambda key: -(history.last(key) or 0.0))
    return [
        {
            "name": line_name(key, name),
            "points": [[p.time_ms, p.value] for p in thinned(history.points(key), POINTS_MAX)],
        }
        for key in [*whole, *parts][:LINES_MAX]
    ]


def _of_busy_apis(history: SampleHistory) -> list[SeriesKey]:
    """The 99th percentiles of the APIs with the most requests."""
    slow = [key for key in history.keys(REQUEST_TIME) if key.part == SLOW_QUANTILE]
    rates = {key.name: history.last(key) or 0.0 for key in history.keys(REQUEST_RATE)}
    return sorted(slow, key=lambda key: -rates.get(key.name, 0.0))


def line_name(key: SeriesKey, asked: str) -> str:
    """The name of a line in the legend."""
    own = "" if key.name == asked else key.name
    part = "" if key.kind == REQUEST_TIME else key.part
    return visible(" ".join(filter(None, (own, part))) or "total", 80)


PAGES = (SitePage("/history", history),)
BACKGROUND = (keep_sampling, keep_finding_metrics)
