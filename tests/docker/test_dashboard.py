"""Tests that the dashboard asks for metrics that exist, and that no panel is empty under load."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwire.conformance.metrics import coordinated, load
from kwire.conformance.metrics.compared import COMPARED
from kwire.conformance.metrics.dashboard import FILE, Panel, Selector, panels
from kwire.conformance.metrics.load import Load
from kwire.conformance.metrics.scrape import Scrape, read
from kwire.conformance.metrics.subjects import kwire
from kwire.server.metrics.declared import METRICS
from kwire.server.metrics.metric import Kind, Metric

GRAFANA = FILE.parents[1]
GRID_WIDTH = 24
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds to every series."""
CLUSTER_ONLY: frozenset[str] = frozenset()
"""Metrics that a broker alone does not have."""


def declared(name: str) -> Metric:
    """The declaration of the metric that a sample with this name belongs to."""
    for suffix in ("", "_count", "_sum"):
        metric = METRICS.get(name.removesuffix(suffix) if suffix else name)
        if metric is not None and (not suffix or metric.kind is Kind.SUMMARY):
            return metric
    raise AssertionError(f"no metric {name}")


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel.title)
def test_queries_of_a_panel_name_declared_metrics_and_labels(panel: Panel) -> None:
    for selector in panel.selectors():
        metric = declared(selector.metric)
        labels = {*metric.labels, *OF_PROMETHEUS}
        if metric.kind is Kind.SUMMARY:
            labels.add("quantile")
        assert {matcher.label for matcher in selector.matchers} <= labels, selector.metric


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel.title)
def test_panel_has_a_description_and_a_unit(panel: Panel) -> None:
    assert panel.description.endswith(".")
    assert panel.unit
    assert panel.queries


def test_panels_fit_into_the_grid_without_overlap() -> None:
    for panel in panels():
        x, _, width, _ = panel.place
        assert 0 <= x < x + width <= GRID_WIDTH, panel.title
    for one, other in itertools.combinations(panels(), 2):
        assert not overlap(one.place, other.place), (one.title, other.title)


def overlap(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    (x, y, width, height), (left, top, wide, high) = one, other
    return x < left + wide and left < x + width and y < top + high and top < y + height


def test_titles_and_ids_of_the_dashboard_are_unique() -> None:
    all_panels = json.loads(FILE.read_text())["panels"]
    for key in ("id", "title"):
        values = [panel[key] for panel in all_panels]
        assert len(set(values)) == len(values)


def test_compared_metrics_are_declared() -> None:
    for row in COMPARED:
        assert set(row.by) <= {*declared(row.metric).labels}, row.metric


def test_dashboard_uses_the_datasource_that_is_provisioned() -> None:
    (source,) = provisioned("datasources/prometheus.yaml")["datasources"]
    variables = json.loads(FILE.read_text())["templating"]["list"]
    (chosen,) = [each for each in variables if each["type"] == "datasource"]
    assert chosen["query"] == source["type"]
    assert chosen["current"]["value"] == source["uid"]
    for variable in variables[1:]:
        assert variable["datasource"]["uid"] == f"${{{chosen['name']}}}"


def provisioned(name: str) -> dict[str, Any]:
    file: dict[str, Any] = yaml.safe_load((GRAFANA / "provisioning" / name).read_text())
    return file


def empty_selectors(scrape: Scrape) -> list[str]:
    """The selectors of all panels that no series matches, or only series without a number."""
    return [
        f"{panel.title}: {selector.metric}"
        for panel in panels()
        for selector in panel.selectors()
        if not has_values(scrape, selector)
    ]


def has_values(scrape: Scrape, selector: Selector) -> bool:
    matchers = [each for each in selector.matchers if each.label not in OF_PROMETHEUS]
    return any(not math.isnan(value) for _, value in scrape.matching(selector.metric, matchers))


@pytest.mark.slow
@pytest.mark.parametrize("brokers", [1, 3])
def test_no_panel_is_empty_under_a_mixed_load(brokers: int, tmp_path: Path) -> None:
    with kwire(tmp_path, brokers) as subject:
        sender = Load(subject.bootstrap)
        sender.prepare()
        for step in (*load.STEPS, *coordinated.STEPS):
            step(sender)
        scrape = read(subject.urls)
        sender.finish()
    assert empty_selectors(scrape) == []
