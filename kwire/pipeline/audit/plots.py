"""The plots of a report, as SVG elements for its HTML page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from datetime import UTC
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kwire.pipeline.audit.report import TopicReport
from kwire.pipeline.audit.words import duration_name, size_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_INCHES = (6.0, 2.7)
BAR, MEAN, GRID, TEXT = "#3b6ea8", "#c2571a", "#e3e6ea", "#39424e"
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: it can be selected, and the page is small
    "svg.hashsalt": "kwire",  # the same figures give the same bytes
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": TEXT,
    "axes.edgecolor": GRID,
    "axes.labelcolor": TEXT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "grid.color": GRID,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
}
DAY_MS = 86_400_000
PARTITIONS_LABELLED = 24
SIZES_LABELLED = 12
KEY_CHARS = 24
TICKS = 5


def plots(topic: TopicReport) -> list[str]:
    """The plots of a topic as SVG elements.  A topic without records has none."""
    if not topic.records:
        return []
    drawn = [_svg(_partitions, topic), _svg(_sizes, topic)]
    if len(topic.over_time) > 1:
        drawn.insert(0, _svg(_over_time, topic))
    if topic.keys.top:
        drawn.append(_svg(_top_keys, topic))
    return drawn


def _svg(draw: Callable[[Axes, TopicReport], None], topic: TopicReport) -> str:
    """Return a plot as an SVG element.  Without the XML declaration before it, and without a date,
    it can stand in HTML and is the same on each run."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        draw(figure.add_subplot(), topic)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


def _over_time(axes: Axes, topic: TopicReport) -> None:
    """Draws the number of records over time."""
    starts = [ms / DAY_MS for ms, _ in topic.over_time]  # matplotlib's dates are days since 1970
    width_days = topic.bucket_ms / DAY_MS
    axes.bar(starts, [n for _, n in topic.over_time], width=width_days, align="edge", color=BAR)
    axes.set_title(f"Records over time ({duration_name(topic.bucket_ms)} a bar, UTC)")
    _whole_numbers(axes, "y")
    _dates(axes)


def _dates(axes: Axes) -> None:
    """Makes the x axis one of dates, with ticks that suit its range."""
    dates: Any = import_module("matplotlib.dates")  # this module has no types
    # Every range of time has 3 to 7 ticks of some unit.  Other limits leave ranges without ticks.
    locator = dates.AutoDateLocator(minticks=3, maxticks=7, tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC))
    axes.grid(visible=False, axis="x")


def _partitions(axes: Axes, topic: TopicReport) -> None:
    """Draws the number of records of each partition, and their mean as a line."""
    numbers = [p.partition for p in topic.partitions]
    mean = topic.records / len(numbers)
    axes.bar(numbers, [p.records for p in topic.partitions], color=BAR, width=0.7)
    axes.axhline(mean, color=MEAN, linewidth=1.2)
    if len(numbers) <= PARTITIONS_LABELLED:
        axes.set_xticks(numbers)
    axes.set_title("Records of each partition (line: their mean)")
    axes.grid(visible=False, axis="x")
    _whole_numbers(axes, "y")


def _sizes(axes: Axes, topic: TopicReport) -> None:
    """Draws a histogram of record sizes; the ticks are upper limits in bytes."""
    places = list(range(len(topic.size_histogram)))
    names = [size_name(upper) for upper, _ in topic.size_histogram]
    axes.bar(places, [n for _, n in topic.size_histogram], color=BAR, width=0.85)
    every = len(places) // SIZES_LABELLED + 1
    axes.set_xticks(places[::every], names[::every])
    axes.set_title("Records by size: up to so many bytes")
    axes.grid(visible=False, axis="x")
    _whole_numbers(axes, "y")


def _top_keys(axes: Axes, topic: TopicReport) -> None:
    """Draws the most frequent keys with their numbers of records, the first at the top.  A `$` is
    escaped, since matplotlib would read it as the start of a formula."""
    top: Sequence[tuple[str, int]] = topic.keys.top[::-1]
    names = [key if len(key) <= KEY_CHARS else key[: KEY_CHARS - 1] + "…" for key, _ in top]
    axes.barh(range(len(top)), [n for _, n in top], color=BAR, height=0.7)
    axes.set_yticks(range(len(top)), [name.replace("$", r"\$") for name in names])
    axes.set_title("Records of the most frequent keys")
    axes.grid(visible=False, axis="y")
    _whole_numbers(axes, "x")


def _whole_numbers(axes: Axes, which: str) -> None:
    """Gives an axis ticks at whole numbers, with commas between thousands."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_locator(MaxNLocator(TICKS, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
