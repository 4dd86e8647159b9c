"""The panels of the Grafana dashboard, and the selectors of their queries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kwire.conformance.metrics.scrape import Matcher

FILE: Final = Path(__file__).parents[2] / "docker/grafana/dashboards/kwire.json"
VARIABLES: Final = ("$broker", "$topic", "$group")
"""The choices at the top of the dashboard; "All" is the regular expression `.*`."""

_SELECTOR: Final = re.compile(r"\b((?:kafka|kwire|process)_\w+)(?:\{([^}]*)\})?")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Selector:
    """What a query takes of one metric: its name and the conditions of its labels."""

    metric: str
    matchers: tuple[Matcher, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel with its queries in PromQL; the choices of variables are "All"."""

    title: str
    description: str
    kind: str
    unit: str
    place: tuple[int, int, int, int]
    """x, y, width and height in the grid of the dashboard."""
    queries: tuple[str, ...]

    def selectors(self) -> Iterator[Selector]:
        """Yield the selectors of all queries."""
        for query in self.queries:
            yield from selectors(query)


def selectors(query: str) -> Iterator[Selector]:
    """Yield the selectors of a query."""
    for metric, conditions in _SELECTOR.findall(query):
        yield Selector(metric, tuple(Matcher(*found) for found in _MATCHER.findall(conditions)))


def panels(file: Path = FILE) -> list[Panel]:
    """Return the panels in the order of the file, without the headings of rows."""
    dashboard = json.loads(file.read_text())
    return [_panel(panel) for panel in dashboard["panels"] if panel["type"] != "row"]


def _panel(panel: dict[str, Any]) -> Panel:
    grid = panel["gridPos"]
    return Panel(
        panel["title"],
        panel["description"],
        panel["type"],
        panel["fieldConfig"]["defaults"]["unit"],
        (grid["x"], grid["y"], grid["w"], grid["h"]),
        tuple(_chosen(target["expr"]) for target in panel["targets"]),
    )


def _chosen(query: str) -> str:
    """Return the query with "All" for each variable."""
    for variable in VARIABLES:
        query = query.replace(variable, ".*")
    return query
