"""The values of one scrape, and their text for Prometheus.

prometheus_client chooses the format by the scraper's Accept header, and its parsers judge the text
in tests.  The lines are written here, because prometheus_client takes ten times as long for them,
and a broker of 10,000 partitions has 110,000 of them.  They are written in pieces, between which
the loop may do other work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from math import inf, isnan
from typing import Final

from prometheus_client.exposition import choose_encoder

from kwire.server.metrics.declared import METRICS
from kwire.server.metrics.metric import Kind, Metric

Labels = tuple[str, ...]
"""The values of a metric's labels, in the order of their declaration."""

LINES_PER_PIECE: Final = 1000
"""Lines of one piece of the text; they take 2 ms."""


def is_open_metrics(accept: str) -> bool:
    """Whether a scraper that sends this Accept header gets OpenMetrics."""
    return content_type(accept).startswith("application/openmetrics-text")


def content_type(accept: str) -> str:
    """The content type of the answer to a scraper that sends this Accept header."""
    chosen: str = choose_encoder(accept)[1]
    return chosen


class Samples:
    """The values of one scrape, by metric and labels.

    Each method raises KeyError for a metric that is not declared, and ValueError for a wrong number
    of labels, the wrong kind, or values that were given before.
    """

    def __init__(self, wanted: Collection[str] | None = None) -> None:
        """Keep the metrics `wanted`, or all; values of others are dropped."""
        self._wanted = None if wanted is None else frozenset(wanted)
        self._values: dict[str, dict[Labels, float]] = {}
        self._summaries: dict[str, dict[Labels, tuple[Mapping[float, float], int, float]]] = {}

    def wants(self, prefixes: tuple[str, ...]) -> bool:
        """Whether a metric is wanted whose name begins with one of `prefixes`."""
        return self._wanted is None or any(name.startswith(prefixes) for name in self._wanted)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Give the value of a counter or gauge."""
        series = self.series(name)
        if len(labels) != len(METRICS[name].labels) or labels in series:
            raise ValueError(f"{name}: labels {labels} are too many, too few or given twice")
        series[labels] = value

    def series(self, name: str) -> dict[Labels, float]:
        """The values of a counter or gauge by labels, for a caller that sets thousands of them."""
        series = self._values.get(name)
        if series is None:
            if METRICS[name].kind is Kind.SUMMARY:
                raise ValueError(f"{name} is a summary")
            series = self._values[name] = {}
        return series

    def summary(
        self, name: str, quantiles: Mapping[float, float], count: int, total: float, *labels: str
    ) -> None:
        """Give the quantiles of a summary, and the count and the sum of all its values so far."""
        metric = METRICS[name]
        series = self._summaries.setdefault(name, {})
        if metric.kind is not Kind.SUMMARY:
            raise ValueError(f"{name} is no summary")
        if len(labels) != len(metric.labels) or labels in series:
            raise ValueError(f"{name}: labels {labels} are too many, too few or given twice")
        series[labels] = quantiles, count, total

    def names(self) -> frozenset[str]:
        """The metrics that have a value."""
        filled = (*self._values.items(), *self._summaries.items())
        names = frozenset(name for name, series in filled if series)
        return names if self._wanted is None else names & self._wanted

    def text(self, *, open_metrics: bool) -> Iterator[bytes]:
        """The scrape in pieces of LINES_PER_PIECE lines, or some more."""
        writer = _TextWriter(open_metrics=open_metrics)
        for name, metric in METRICS.items():
            if self._wanted is not None and name not in self._wanted:
                continue
            if series := self._values.get(name):
                yield from writer.values(metric, series)
            elif summaries := self._summaries.get(name):
                yield from writer.summaries(metric, summaries)
        yield writer.rest() + (b"# EOF\n" if open_metrics else b"")


class _TextWriter:
    """Writes metrics as text; label values that many metrics share are written once.

    `values` and `summaries` give the pieces that are full meanwhile, and `rest` the last one.
    """

    def __init__(self, *, open_metrics: bool) -> None:
        self._open_metrics = open_metrics
        self._by_names: dict[Labels, dict[Labels, str]] = {}
        self._lines: list[str] = []

    def values(self, metric: Metric, series: Mapping[Labels, float]) -> Iterator[bytes]:
        lines, name = self._lines, metric.name
        lines.append(_head(name, self._open_metrics))
        known = self._by_names.setdefault(metric.labels, {})
        for labels, value in series.items():
            text = known.get(labels)
            if text is None:
                text = known[labels] = _braces(metric.labels, labels)
            lines.append(f"{name}{text} {value if value.__class__ is int else _number(value)}\n")
            if len(lines) >= LINES_PER_PIECE:
                yield self.rest()

    def summaries(
        self, metric: Metric, series: Mapping[Labels, tuple[Mapping[float, float], int, float]]
    ) -> Iterator[bytes]:
        lines, name = self._lines, metric.name
        lines.append(_head(name, self._open_metrics))
        for labels, (quantiles, count, total) in series.items():
            braces = _braces(metric.labels, labels)
            inner = f"{braces[:-1]}," if braces else "{"
            for quantile, value in quantiles.items():
                lines.append(f'{name}{inner}quantile="{quantile}"}} {_number(value)}\n')
            lines.append(f"{name}_count{braces} {count}\n{name}_sum{braces} {_number(total)}\n")
            if len(lines) >= LINES_PER_PIECE:
                yield self.rest()

    def rest(self) -> bytes:
        """The lines that were not given yet."""
        piece = "".join(self._lines).encode()
        self._lines.clear()
        return piece


@cache
def _head(name: str, open_metrics: bool) -> str:
    """The lines of help and type.  OpenMetrics names a counter without its `_total`."""
    metric = METRICS[name]
    if open_metrics and metric.kind is Kind.COUNTER:
        name = name.removesuffix("_total")
    text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {metric.kind.value}\n"


def _braces(names: Labels, values: Labels) -> str:
    """`{topic="flights",partition="0"}`; a label with an empty value is left out.

    Prometheus takes a missing label and an empty one for the same.  Raises ValueError if there are
    more or fewer values than names.
    """
    labels = zip(names, values, strict=True)
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels if value)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    """A label's value as the formats want it; halves of surrogate pairs are no UTF-8."""
    value = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value.encode("utf-8", "replace").decode()


def _number(value: float) -> str:
    """A number as both formats want it."""
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
