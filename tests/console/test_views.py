"""What views compute from the history, and the templates."""

from __future__ import annotations

import pytest

from kwire.client.cluster import Cluster
from kwire.console.history.sampler import ERROR_RATE, REQUEST_RATE, REQUEST_TIME
from kwire.console.history.series import SampleHistory, SeriesKey, SeriesPoint
from kwire.console.pool import ClusterPool
from kwire.console.serving import compile_templates
from kwire.console.site import Site
from kwire.console.views.clients import ApiRow, api_rows
from kwire.console.views.groups import CHANGE_MS, lag_change


def points(*values: float | None, interval_ms: int = 5_000) -> list[SeriesPoint]:
    return [SeriesPoint(number * interval_ms, value) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ((), None),
        ((5.0,), None),
        ((None, None), None),
        ((10.0, 20.0), 2.0),
        ((None, 20.0, 10.0), -2.0),
        ((10.0, 99.0, None, 10.0), 0.0),
    ],
)
def test_change_of_a_lag_needs_two_samples(
    lags: tuple[float | None, ...], expected: float | None
) -> None:
    assert lag_change(points(*lags)) == expected


def test_change_of_a_lag_is_that_of_the_last_minute() -> None:
    old = points(*[1000.0] * 5, interval_ms=CHANGE_MS)
    new = [SeriesPoint(5 * CHANGE_MS, 1600.0)]
    assert lag_change([*old, *new]) == 10.0


def test_requests_by_api_are_sorted_by_their_rate() -> None:
    history = SampleHistory()
    history.add(
        1000,
        {
            SeriesKey(REQUEST_RATE, "Fetch"): 1.0,
            SeriesKey(REQUEST_RATE, "Produce"): 5.0,
            SeriesKey(ERROR_RATE, "Produce"): 2.0,
            SeriesKey(REQUEST_TIME, "Produce", "0.5"): 0.25,
            SeriesKey(REQUEST_TIME, "Produce", "0.99"): 4.0,
        },
    )
    assert api_rows(history) == [
        ApiRow("Produce", 5.0, 2.0, 0.25, 4.0),
        ApiRow("Fetch", 1.0, None, None, None),
    ]


async def test_all_templates_are_compiled_beside_the_pages() -> None:
    site = Site(ClusterPool(lambda: Cluster("127.0.0.1:1")), "127.0.0.1:1")
    await compile_templates(site)
    assert site.templates.cache is not None
    assert len(site.templates.cache) == len(site.templates.list_templates())
