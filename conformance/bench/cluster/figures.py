"""All figures of a run, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from kwire.conformance.bench import report
from kwire.conformance.bench.cluster.steady import WORKS
from kwire.conformance.bench.cluster.subjects import KWIRE
from kwire.conformance.bench.measure import Series
from kwire.conformance.bench.rows import Figure, Figures

LOSS: Final = "kill -9 of a leader, to the next record that is acknowledged"
CLIENT_LOSS: Final = "kill -9 of a leader, to the next record that librdkafka gets acknowledged"
SHUTDOWN: Final = "each broker stopped and started under a client's load"
MANY: Final = "kill -9 with many partitions, until all are served again"
JOIN: Final = "a broker comes into a cluster with many topics"
MEMORY: Final = "memory of the three brokers"

SHORT = Figure("short backoffs", "s", more_is_better=False)
SHOWN = (0, 1, 2, 3, 4, 7, 8)
"""The columns of a report that are shown; there is no floor here."""


def _of(row: str, title: str, name: str, unit: str, target: float | None = None) -> Series:
    """Return a figure of which less is better."""
    return Series(row, title, Figure(name, unit, more_is_better=False), target)


class Failures(Series):
    """A series of failure counts, which has no ratios because the target is 0."""

    def ratios(self, ours: str, theirs: str) -> list[float]:
        return []


class Book:
    """The results so far."""

    def __init__(self, apache: str, failover_limit_s: float | None = None) -> None:
        """Create all series of the report, still without values; `apache` is Apache Kafka's name.

        `failover_limit_s` is the longest time that a client with short backoffs should wait.  A
        target says how many times better than Apache Kafka kwire has to be: 1.0 means as good.
        """
        self.apache = apache
        self.series = [
            Series(work.key, f"acks=all, {work.title}", figure, None)
            for work in WORKS
            for figure in work.figures
        ]
        self.series += [
            _of("failover", LOSS, "each", "s", 1.0),
            _of("failover", LOSS, "worst", "s", 1.0),
            Series("client-failover", CLIENT_LOSS, SHORT, None, limit=failover_limit_s),
            _of("client-failover", CLIENT_LOSS, "default settings", "s"),
            Failures("shutdown", SHUTDOWN, _failed_figure(), None, limit=0),
            _of("shutdown", SHUTDOWN, "longest", "ms"),
            _of("shutdown", SHUTDOWN, "stop", "s"),
            Series("catch-up", "an empty follower catches up", Figure("bytes", "MB/s"), 1.0),
            _of("many", MANY, "created", "s"),
            _of("many", MANY, "a member", "s", 1.0),
            _of("many", MANY, "the controller", "s", 1.0),
            _of("join", JOIN, "created", "s"),
            _of("join", JOIN, "joined", "s", 1.0),
            _of("join", JOIN, "again", "s", 1.0),
        ]
        for when in ("idle", "after load", "many partitions", "many topics"):
            self.series += [_of("memory", MEMORY, f"{when}, {kind}", "MB") for kind in KINDS]

    def add(self, row: str, subject: str, figures: Mapping[str, float | Sequence[float]]) -> None:
        """Add one turn's figures of a row, each a number or several."""
        for series in self.series:
            if series.row == row and series.figure.name in figures:
                value = figures[series.figure.name]
                for number in [value] if isinstance(value, float) else value:
                    series.add(subject, number)

    def close(self) -> None:
        """Add the figures that depend on all turns."""
        each, worst = (series for series in self.series if series.row == "failover")
        for subject, values in each.values.items():
            worst.add(subject, max(values))

    @property
    def measured(self) -> list[Series]:
        return [series for series in self.series if series.values]

    def table(self, note: str) -> Table:
        """Return the table for the terminal, with this note below it."""
        table = Table(title="Clusters of three", title_justify="left", caption=note)
        names = report.columns(self.apache)
        for at in SHOWN:
            table.add_column(names[at], justify="left" if at < 2 else "right")
        for series in self.measured:
            line = report.cells(series, self.apache)
            table.add_row(*(line[at] for at in SHOWN))
        return table

    def markdown(self, note: str) -> str:
        """Return the section of the report in Markdown; numbers are aligned to the right."""
        names = report.columns(self.apache)
        lines = [[names[at] for at in SHOWN], ["---"] * 2 + ["---:"] * (len(SHOWN) - 2)]
        cells = [report.cells(series, self.apache) for series in self.measured]
        lines += [[line[at] for at in SHOWN] for line in cells]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"## Clusters of three\n\n{note}\n\n{table}\n"

    def as_json(self) -> list[dict[str, Any]]:
        return [_as_json(series, self.apache) for series in self.measured]

    def print(self, console: Console, note: str) -> None:
        console.print(self.table(note))


KINDS: Final = ("PSS", "RSS")


def memory(when: str, pss_mb: float, rss_mb: float) -> Figures:
    """Return the figures of one sample of the memory."""
    return {f"{when}, {kind}": value for kind, value in zip(KINDS, (pss_mb, rss_mb), strict=True)}


def _failed_figure() -> Figure:
    return Figure("failed", "records", more_is_better=False)


def _as_json(series: Series, apache: str) -> dict[str, Any]:
    """Return the values of a series, their medians, and kwire's ratio to Apache Kafka."""
    ratios = series.ratios(KWIRE, apache)
    return {
        "row": series.row,
        "title": series.title,
        "figure": series.figure.name,
        "unit": series.figure.unit,
        "more_is_better": series.figure.more_is_better,
        "values": series.values,
        "medians": {subject: median(values) for subject, values in series.values.items()},
        "times_better": median(ratios) if ratios else None,
        "wanted_times_better": series.target,
        "limit": series.limit,
        "met": series.met(KWIRE, apache),
    }
