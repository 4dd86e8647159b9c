"""The lines of plots, out of the history."""

from __future__ import annotations

from kwire.console.history.sampler import (
    BROKER_SIZE,
    CLUSTER_RATE,
    GROUP_LAG,
    REQUEST_RATE,
    REQUEST_TIME,
    TOPIC_RATE,
)
from kwire.console.history.series import SampleHistory, SeriesKey
from kwire.console.views.plots import LINES_MAX, lines_of


def history_of(values: dict[SeriesKey, float]) -> SampleHistory:
    history = SampleHistory()
    history.add(1000, dict(values))
    return history


def names(history: SampleHistory, kind: str, name: str = "") -> list[str]:
    return [line["name"] for line in lines_of(history, kind, name)]


def test_plot_of_a_group_has_its_lag_and_the_topics_with_the_most() -> None:
    lags = {SeriesKey(GROUP_LAG, "g", f"t{number}"): float(number) for number in range(9)}
    history = history_of({SeriesKey(GROUP_LAG, "g"): 36.0, SeriesKey(GROUP_LAG, "h"): 1.0} | lags)
    assert names(history, GROUP_LAG, "g") == ["total", "t8", "t7", "t6", "t5", "t4"]
    assert lines_of(history, GROUP_LAG, "h") == [{"name": "total", "points": [[1000, 1.0]]}]
    assert names(history, GROUP_LAG) == []


def test_plots_of_the_cluster_have_one_line_or_one_for_each_broker() -> None:
    sizes = {SeriesKey(BROKER_SIZE, str(node)): float(node) for node in range(8)}
    history = history_of({SeriesKey(CLUSTER_RATE): 5.0, SeriesKey(TOPIC_RATE, "a"): 5.0} | sizes)
    assert names(history, CLUSTER_RATE) == ["total"]
    assert names(history, BROKER_SIZE) == ["7", "6", "5", "4", "3", "2"][:LINES_MAX]
    assert names(history, TOPIC_RATE) == []


def test_plot_of_request_times_has_the_apis_with_the_most_requests() -> None:
    history = history_of(
        {
            SeriesKey(REQUEST_RATE, "Fetch"): 100.0,
            SeriesKey(REQUEST_RATE, "Produce"): 200.0,
            SeriesKey(REQUEST_TIME, "CreateTopics", "0.99"): 900.0,
            SeriesKey(REQUEST_TIME, "Fetch", "0.99"): 500.0,
            SeriesKey(REQUEST_TIME, "Produce", "0.99"): 3.0,
            SeriesKey(REQUEST_TIME, "Produce", "0.5"): 1.0,
        }
    )
    assert names(history, REQUEST_TIME) == ["Produce", "Fetch", "CreateTopics"]


def test_names_in_legends_are_shown_as_text() -> None:
    history = history_of({SeriesKey(GROUP_LAG, "g", "a\u202eb"): 1.0})
    assert names(history, GROUP_LAG, "g") == ["a\u27e8U+202E\u27e9b"]
