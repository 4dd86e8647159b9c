"""Reports of a run of the suite as HTML, JSON and JUnit XML, with a section for each part."""

from __future__ import annotations

import html
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

FILES = ("report.html", "report.json", "report.xml")


class ReportPart(ABC):
    """The result of one part of the suite; `red` is the number of failures."""

    name: str
    title: str
    summary: str
    red: int

    @abstractmethod
    def words(self) -> Iterator[str]:
        """Yield the differences, one line each."""

    @abstractmethod
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the whole result, for programs."""

    @abstractmethod
    def junit(self) -> Iterator[ElementTree.Element]:
        """Yield the JUnit test suites of this part."""

    @abstractmethod
    def html(self) -> str:
        """Return the HTML below the part's heading."""


class LineState(StrEnum):
    """The result of one scenario or case."""

    GREEN = "green"
    EXCUSED = "excused"
    RED = "red"


class ReportLine(NamedTuple):
    """One scenario or case; `detail` is how the brokers differ, `reason` why that is allowed."""

    name: str
    about: str
    state: LineState
    detail: str = ""
    reason: str = ""


class ListPart(ReportPart):
    """A part whose result is a list of scenarios or cases."""

    def __init__(self, name: str, title: str, lines: Sequence[ReportLine], seconds: float) -> None:
        """Count the lines by state for the summary; `seconds` is how long the part took."""
        self.name, self.title = name, title
        self._lines = lines
        states = Counter(line.state for line in lines)
        self.red = states[LineState.RED]
        self.summary = (
            f"{len(lines)} {name} verdicts: {states[LineState.GREEN]} green, {self.red} red, "
            f"{states[LineState.EXCUSED]} with a known difference, in {seconds:.0f} s"
        )

    def words(self) -> Iterator[str]:
        """Yield the red lines with their details."""
        for line in self._lines:
            if line.state is LineState.RED:
                yield f"{line.name}: {line.about}" if line.about else line.name
                yield from (f"  {part}" for part in line.detail.splitlines())

    def json(self) -> list[dict[str, str]]:
        return [line._asdict() for line in self._lines]

    def junit(self) -> Iterator[ElementTree.Element]:
        """Yield a test suite for each group of lines with the same text before the first dot or
        slash."""
        groups: dict[str, list[tuple[ElementTree.Element, str]]] = {}
        for line in self._lines:
            group = line.name.replace("/", ".").partition(".")[0]
            element = ElementTree.Element("testcase", classname=group, name=line.name)
            if line.state is LineState.RED:
                failure = ElementTree.SubElement(element, "failure", message=line.about)
                failure.text = line.detail
            kind = "failure" if line.state is LineState.RED else "passed"
            groups.setdefault(group, []).append((element, kind))
        for group, cases in groups.items():
            yield junit_suite(f"{self.name}: {group}", cases)

    def html(self) -> str:
        """Return the table of all lines, the red ones first."""
        order = [LineState.RED, LineState.EXCUSED, LineState.GREEN]
        lines = sorted(self._lines, key=lambda line: order.index(line.state))
        rows = "".join(_row(line) for line in lines)
        return f"<table class=list>{rows}</table>"


def _row(line: ReportLine) -> str:
    """Return the table row of a line, with its reason and a difference that can be unfolded."""
    colour = "green excused" if line.state is LineState.EXCUSED else str(line.state)
    row = f"<tr><td class='{colour}'>{line.state}<td>{html.escape(line.name)}"
    row += f"<td>{html.escape(line.about)}"
    if line.reason:
        row += f"<br><i>{html.escape(line.reason)}</i>"
    if line.detail:
        row += f"<details><summary>difference</summary><pre>{html.escape(line.detail)}</pre>"
        row += "</details>"
    return row


def junit_suite(name: str, cases: Iterable[tuple[ElementTree.Element, str]]) -> ElementTree.Element:
    """Return a test suite of (test case, result), where a result is `passed`, `failure` or
    `skipped`."""
    suite = ElementTree.Element("testsuite", name=name)
    counts: Counter[str] = Counter()
    for element, kind in cases:
        counts[kind] += 1
        suite.append(element)
    suite.set("tests", str(counts.total()))
    suite.set("failures", str(counts["failure"]))
    suite.set("skipped", str(counts["skipped"]))
    return suite


STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; max-width: 110em; }
table { border-collapse: collapse; } td, th { padding: 2px 6px; text-align: left; }
.list td { vertical-align: top; border-bottom: 1px solid #eee; }
.matrix td { text-align: center; min-width: 1.6em; border: 1px solid #fff; }
.green { background: #9fd8a4; } .red { background: #f08a80; } .grey { background: #ddd; }
.excused { outline: 2px solid #c9a227; outline-offset: -2px; }
pre { background: #f6f6f6; padding: 6px; max-height: 30em; overflow: auto; white-space: pre-wrap; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 8px; }
"""


def write(parts: Sequence[ReportPart], subject: str, oracle: str, folder: Path) -> None:
    """Write `FILES` into the folder, which is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {"subject": subject, "oracle": oracle}
    results |= {part.name: part.json() for part in parts}
    folder.joinpath("report.json").write_text(json.dumps(results, indent=1))
    suites = ElementTree.Element("testsuites", name="kwire conformance")
    suites.extend(suite for part in parts for suite in part.junit())
    tree = ElementTree.ElementTree(suites)
    tree.write(folder / "report.xml", encoding="utf-8", xml_declaration=True)
    folder.joinpath("report.html").write_text(_page(parts, subject, oracle))


def _page(parts: Sequence[ReportPart], subject: str, oracle: str) -> str:
    """Return the HTML page, which needs no other file."""
    page = [
        "<!doctype html><meta charset=utf-8><title>kwire conformance</title>",
        f"<style>{STYLE}</style>",
        f"<h1>{html.escape(subject)} compared with {html.escape(oracle)}</h1>",
    ]
    page += [
        f"<p><a href='#{part.name}'>{part.title}</a>: {html.escape(part.summary)}" for part in parts
    ]
    for part in parts:
        page += [f"<h2 id={part.name}>{part.title}</h2>", part.html()]
    return "\n".join(page)
