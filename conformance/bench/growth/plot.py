"""The plot of the growth benchmark, as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kwire.conformance.bench.growth.greedy import GREEDS, LIMIT_MS
from kwire.conformance.bench.growth.report import GROWTH_MAX, titles
from kwire.conformance.bench.growth.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_INCHES = 0.32
COLOURS = ("tab:blue", "tab:orange", "tab:green")


def draw(results: Results, path: Path) -> None:
    """Plot how the cost of each request grows, and the waits beside greedy clients."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot

    costs = [
        (f"{title}: {request}", key, request)
        for key, title in titles(results).items()
        for request in next(iter(results.scales[key].values())).costs
    ]
    greeds = [greed for greed in GREEDS if greed.key in results.greedy]
    heights = [max(1, len(costs)), max(1, len(greeds))]
    figure, (above, below) = pyplot.subplots(
        2,
        1,
        figsize=(11, LINE_INCHES * sum(heights) + 2.5),
        height_ratios=heights,
    )
    for name, colour in zip(results.brokers(), COLOURS, strict=False):
        growths = [
            results.scales[key][name].costs[request].growth if name in results.scales[key] else None
            for _, key, request in costs
        ]
        _dots(above, growths, name, colour)
        waits = [
            results.greedy[greed.key][name].beside.p99
            if name in results.greedy[greed.key]
            else None
            for greed in greeds
        ]
        _dots(below, waits, name, colour)
    _finish(above, [label for label, _, _ in costs], GROWTH_MAX)
    above.set(title="Processor time of a request at full size, as a multiple of that at a tenth")
    _finish(below, [greed.title for greed in greeds], LIMIT_MS)
    below.set(title="p99 of a tiny producer beside one greedy client, ms")
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def _dots(axes: Axes, values: list[float | None], name: str, colour: str) -> None:
    """Draw a dot for each value that there is, the first one at the top."""
    known = [(value, -at) for at, value in enumerate(values) if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), "o", color=colour, label=name)


def _finish(axes: Axes, labels: list[str], limit: float) -> None:
    """Label the lines, and mark the wanted limit."""
    axes.set_yticks([-at for at in range(len(labels))], labels)
    axes.set_xscale("log")
    axes.axvline(limit, color="tab:red", linestyle="--", label=f"wanted: at most {limit:g}")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
