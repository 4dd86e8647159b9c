"""The report of a benchmark: tables on the terminal and in a Markdown file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from kwire.conformance.bench.brokers import Floor, Kwire
from kwire.conformance.bench.measure import Series

OURS = Kwire.name
FLOOR = Floor.name


@dataclass
class Section:
    """One table: a heading, a note on the measurement, and the figures."""

    heading: str
    note: str
    series: list[Series]


def columns(peer: str) -> list[str]:
    return ["work", "figure", OURS, peer, "times better", "floor", "of the floor", "wanted", ""]


def cells(series: Series, peer: str) -> list[str]:
    """Return the cells of one line of a table."""
    met = series.met(OURS, peer)
    return [
        series.title,
        f"{series.figure.name}, {series.figure.unit}",
        _value(series, OURS),
        _value(series, peer),
        _ratios(series.ratios(OURS, peer)),
        _value(series, FLOOR),
        _share(series.ratios(OURS, FLOOR)),
        _target(series),
        "" if met is None else "yes" if met else "NO",
    ]


def number(value: float) -> str:
    """Return the number with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _value(series: Series, broker: str) -> str:
    """Return the median, with the smallest and the largest value if there are several."""
    values = series.values.get(broker)
    if not values:
        return ""
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))}-{number(max(values))})"


def _ratios(ratios: Sequence[float]) -> str:
    """Return the median ratio with its range; "" without ratios."""
    if not ratios:
        return ""
    spread = f" ({min(ratios):.2f}-{max(ratios):.2f})" if len(ratios) > 1 else ""
    return f"{median(ratios):.2f}{spread}"


def _share(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.0%}" if ratios else ""


def _target(series: Series) -> str:
    if series.limit is not None:
        return f"≤ {series.limit:g} {series.figure.unit}"
    return f"≥ {series.target:g} x" if series.target is not None else ""


def print_section(console: Console, section: Section, peer: str) -> None:
    """Print a section as a table; the last column says in colour whether the target is met."""
    table = Table(title=section.heading, title_justify="left", caption=section.note)
    for index, name in enumerate(columns(peer)):
        table.add_column(name, justify="left" if index < 2 else "right", no_wrap=index > 1)
    for series in section.series:
        line = cells(series, peer)
        style = {"yes": "green", "NO": "bold red"}.get(line[-1], "")
        table.add_row(*line[:-1], f"[{style}]{line[-1]}[/]" if style else "")
    console.print(table)


def markdown(
    sections: Sequence[Section], facts: Sequence[tuple[str, str]], how: str, peer: str
) -> str:
    """Return the whole report as Markdown."""
    lines = [f"# {OURS} and {peer}, side by side", "", how, ""]
    lines += ["| machine | |", "| --- | --- |"]
    lines += [f"| {what} | {value} |" for what, value in facts]
    parts = ["\n".join(lines) + "\n"]
    parts += [_section_text(section, peer) for section in sections]
    return "\n".join(parts)


def _section_text(section: Section, peer: str) -> str:
    """Return a section in Markdown; numbers are aligned to the right."""
    names = columns(peer)
    lines = [f"## {section.heading}", "", section.note, ""]
    lines += [_line(names), _line(["---"] * 2 + ["---:"] * (len(names) - 2))]
    lines += [_line(cells(series, peer)) for series in section.series]
    return "\n".join(lines) + "\n"


def put_section(document: str, section: Section, peer: str) -> str:
    """Return the report with this section, which replaces one with the same heading or is added."""
    return _replace_section(document, section.heading, _section_text(section, peer))


def update_report(console: Console, path: Path, section: Section, peer: str) -> None:
    """Put a section into the report at `path`, which need not exist, and print its path."""
    before = path.read_text() if path.exists() else ""
    path.write_text(put_section(before, section, peer))
    console.print(f"written: {path}")


def keep_section(document: str, before: str, heading: str) -> str:
    """Return the report with the section of an earlier report under this heading, if that has
    it."""
    kept = _parts(before).get(heading)
    return _replace_section(document, heading, kept) if kept else document


def show_plot(document: str, plot: str) -> str:
    """Return the report with a plot of this file name before its first section, once."""
    parts = _parts(document)
    picture = f"![how many times better each row is, with the spread of the rounds]({plot})"
    if picture not in parts[""]:
        parts[""] = f"{parts['']}\n{picture}\n"
    return "\n".join(parts.values())


def _replace_section(document: str, heading: str, text: str) -> str:
    parts = _parts(document) | {heading: text}
    return "\n".join(parts.values())


def _parts(document: str) -> dict[str, str]:
    """Return the text before the first heading, under "", and each section by its heading."""
    parts = re.split(r"\n(?=## )", document)
    return {"": parts[0]} | {part.splitlines()[0].removeprefix("## "): part for part in parts[1:]}


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
