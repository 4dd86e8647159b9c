"""What clients have the brokers do: the busiest clients, the slowest requests, errors.

The brokers' metrics endpoints tell it, so the menu has the page only if the console knows some.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.responses import Response

from kwire.console.cluster.commands import command_line
from kwire.console.history.observed import Observed
from kwire.console.history.sampler import (
    ERROR_RATE,
    QUANTILES,
    REQUEST_RATE,
    REQUEST_TIME,
)
from kwire.console.history.series import SampleHistory, SeriesKey
from kwire.console.site import SitePage, Visit
from kwire.console.views.plots import observed_on, sampler_of

CLIENTS_SHOWN_MAX: Final = 100
REQUESTS_SHOWN_MAX: Final = 50


class ApiRow(NamedTuple):
    """The requests of one API key in the last sample; None where it has no value."""

    api: str
    per_s: float | None
    errors_per_s: float | None
    median_ms: float | None
    slow_ms: float | None
    """The 99th percentile."""


async def clients(visit: Visit) -> Response:
    """The busiest clients, the slowest requests, and the requests by API key."""
    sampler = sampler_of(visit.site)
    observed = await observed_on(visit.site) or Observed()
    return visit.page(
        "clients.html",
        clients=observed.clients[:CLIENTS_SHOWN_MAX],
        slowest=observed.slowest[:REQUESTS_SHOWN_MAX],
        trouble=observed.trouble or sampler.metrics_trouble,
        apis=api_rows(sampler.history),
        knows_metrics=bool(visit.site.metrics),
        command=command_line(["top"], visit.site.command_options),
    )


def api_rows(history: SampleHistory) -> list[ApiRow]:
    """The requests by API key, those first that are sent most."""
    median, slow = QUANTILES
    rows = [
        ApiRow(
            key.name,
            history.last(key),
            history.last(SeriesKey(ERROR_RATE, key.name)),
            history.last(SeriesKey(REQUEST_TIME, key.name, median)),
            history.last(SeriesKey(REQUEST_TIME, key.name, slow)),
        )
        for key in history.keys(REQUEST_RATE)
    ]
    return sorted(rows, key=lambda row: (-(row.per_s or 0.0), row.api))


PAGES = (
    SitePage(
        "/clients", clients, label="Clients", position=45, is_shown=lambda site: bool(site.metrics)
    ),
)
