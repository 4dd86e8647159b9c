"""How many times better kwire is in each row, with the spread of the rounds, as an SVG.

A plot takes `Ratio`s: those of a run's series, or those that the tables of RESULTS.md have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from kwire.conformance.bench.report import OURS, Section

LINE_INCHES = 0.17
HEAD_INCHES = 1.2
WIDTH_INCHES = 9
BETTER, WORSE = "tab:blue", "tab:orange"
RATIOS_COLUMN = 4
"""The column "times better" of a report's tables."""
RULE = re.compile(r"\|(?: -+:? \|)+")


class Ratio(NamedTuple):
    """How many times better kwire is in one line of a table: median, smallest and largest."""

    section: str
    label: str
    middle: float
    least: float
    most: float


def of_sections(sections: Sequence[Section], peer: str) -> list[Ratio]:
    """Return the ratios of all series that have some, in the order of the report."""
    found = []
    for section in sections:
        for series in section.series:
            if ratios := series.ratios(OURS, peer):
                label = f"{series.title}: {series.figure.name}"
                spread = median(ratios), min(ratios), max(ratios)
                found.append(Ratio(section.heading, label, *spread))
    return found


def of_tables(document: str, headings: Sequence[str]) -> list[Ratio]:
    """Return the ratios in the tables of a report's sections that have one of these headings."""
    found = []
    for part in re.split(r"\n(?=## )", document):
        heading = part.split("\n", 1)[0].removeprefix("## ")
        if heading in headings:
            found += [
                Ratio(heading, f"{cells[0]}: {cells[1].rpartition(', ')[0]}", *spread)
                for cells in _rows(part)
                if (spread := _spread(cells[RATIOS_COLUMN]))
            ]
    return found


def _rows(part: str) -> Iterator[list[str]]:
    """Yield the cells of each line of the tables that have a column "times better"."""
    head: list[str] = []
    before = ""
    for line in part.splitlines():
        if RULE.fullmatch(line):
            head = _cells(before)
        elif not line.startswith("|"):
            head = []
        elif head and head[RATIOS_COLUMN : RATIOS_COLUMN + 1] == ["times better"]:
            cells = _cells(line)
            if len(cells) == len(head):
                yield cells
        before = line


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _spread(text: str) -> tuple[float, float, float] | None:
    """Return median, smallest and largest of a cell such as "2.94 (1.30-7.77)"; None if empty."""
    numbers = [float(number.replace(",", "")) for number in re.findall(r"[\d,.]+", text)]
    if not numbers:
        return None
    middle, *ends = numbers
    least, most = ends or (middle, middle)
    return middle, least, most


def draw(ratios: Sequence[Ratio], path: Path, peer: str) -> None:
    """Plot the ratios on a logarithmic axis, with a line at 1; the same ratios give the same file.

    Letters stay text, which is shorter than their outlines.
    """
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    with mpl.rc_context({"svg.hashsalt": "results", "svg.fonttype": "none", "font.size": 7}):
        headings = list(dict.fromkeys(ratio.section for ratio in ratios))
        height = LINE_INCHES * (len(ratios) + len(headings)) + HEAD_INCHES
        figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES, height))
        labels: list[str] = []
        for heading in headings:
            labels.append(heading.upper())
            for ratio in ratios:
                if ratio.section == heading:
                    colour = BETTER if ratio.middle >= 1 else WORSE
                    at = -len(labels)
                    axes.plot([ratio.least, ratio.most], [at, at], color=colour, linewidth=1.5)
                    axes.plot(ratio.middle, at, "o", color=colour, markersize=3.5)
                    labels.append(ratio.label)
        axes.set_yticks([-at for at in range(len(labels))], labels)
        axes.set_ylim(-len(labels), 1)
        axes.set_xscale("log")
        axes.axvline(1, color="black", linewidth=1)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=True, axis="x", alpha=0.3)
        axes.set_title(f"{OURS} beside {peer}: times better (median, smallest, largest)")
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)
