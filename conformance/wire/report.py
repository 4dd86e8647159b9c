"""Reports of the wire part: HTML for people, JSON for programs, JUnit XML for build servers."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.report import ReportPart, junit_suite
from kwire.conformance.wire.allowed import EXCUSED
from kwire.conformance.wire.compare import shown
from kwire.conformance.wire.peer import Sent
from kwire.conformance.wire.runner import CaseVerdict, Cell, CellState
from kwire.conformance.wire.stage import CaseStep
from kwire.testing.comparing.normal import plain
from kwire.testing.comparing.rules import FIELDS, ITEMS, TEXTS


class WireRun(NamedTuple):
    """One run of the wire part."""

    seconds: float
    cells: tuple[Cell, ...]

    @property
    def red(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.state is CellState.RED)


class WirePart(ReportPart):
    """The wire part of a report: a matrix of API keys and versions."""

    name = "wire"
    title = "Wire: every request and reply"

    def __init__(self, run: WireRun) -> None:
        self._run = run
        self.summary = summary(run)
        self.red = len(run.red)

    def words(self) -> Iterator[str]:
        """Yield the red versions with their red cases."""
        for cell in self._run.red:
            yield f"{name_of(cell.api_key)} v{cell.version}: {cell.why}"
            for verdict in cell.verdicts:
                if verdict.state is CellState.RED:
                    yield f"  {verdict.case.name}: {what_differs(verdict)}"

    def json(self) -> dict[str, Any]:
        return as_json(self._run)

    def junit(self) -> Iterator[ElementTree.Element]:
        return as_junit(self._run)

    def html(self) -> str:
        return as_html(self._run)


def name_of(api_key: int) -> str:
    """`OFFSET_FETCH` as the protocol's documents spell it: OffsetFetch."""
    if api_key not in ApiKey.__members__.values():
        return f"key {api_key}"
    return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))


def summary(run: WireRun) -> str:
    """Return one sentence with the numbers of versions and cases."""
    cells = Counter(cell.state for cell in run.cells)
    verdicts = [verdict for cell in run.cells for verdict in cell.verdicts]
    excused = sum(bool(verdict.excuses) for verdict in verdicts)
    green, red, grey = (cells[state] for state in CellState)
    return (
        f"{len(run.cells)} versions of API keys: {green} green, {red} red, "
        f"{grey} grey (not served); {len(verdicts)} cases, "
        f"{excused} with a known difference, in {run.seconds:.0f} s"
    )


# -- programs


def as_json(run: WireRun) -> dict[str, Any]:
    """Return the whole result; requests and responses only of cases that differ."""
    return {
        "seconds": round(run.seconds, 1),
        "cells": [
            {
                "api_key": cell.api_key,
                "api": name_of(cell.api_key),
                "version": cell.version,
                "state": cell.state,
                "why": cell.why,
                "cases": [_case_json(verdict) for verdict in cell.verdicts],
            }
            for cell in run.cells
        ],
    }


def _case_json(verdict: CaseVerdict) -> dict[str, Any]:
    """Return a verdict for the JSON report; only failed cases have their steps."""
    result: dict[str, Any] = {"name": verdict.case.name, "state": verdict.state}
    if verdict.problem:
        result["problem"] = verdict.problem
    if verdict.excuses:
        result["excuses"] = [excuse.reason for excuse in verdict.excuses]
    if verdict.first_difference:
        number, difference = verdict.first_difference
        result["step"] = number
        result["path"] = difference.path
        result["subject"], result["oracle"] = difference.left, difference.right
    if verdict.state is CellState.RED:
        result["steps"] = [
            {"request": request, "subject": left, "oracle": right}
            for request, left, right in _exchanges(verdict)
        ]
    return result


def _exchanges(verdict: CaseVerdict) -> Iterable[tuple[Any, Any, Any]]:
    """Yield (request, response of the subject, response of the oracle) up to the first that
    differs."""
    last = verdict.first_difference.number if verdict.first_difference else len(verdict.right)
    for number in range(last + 1):
        left = verdict.left[number] if number < len(verdict.left) else None
        right = verdict.right[number] if number < len(verdict.right) else None
        if left or right:
            step = left or right
            assert step is not None
            yield _request(step), left and shown(left), right and shown(right)


def _request(step: CaseStep) -> dict[str, Any]:
    """Return the title and the fields of a step's request."""
    body = plain(step.request)
    title = f"{name_of(step.api_key)} v{step.version}"
    if isinstance(step.outcome, Sent):
        title += " (no reply expected)"
    return {"title": title, "body": body}


def as_junit(run: WireRun) -> Iterator[ElementTree.Element]:
    """Yield a test suite for each API key, with a test for each case and version."""
    by_key: dict[int, list[Cell]] = {}
    for cell in run.cells:
        by_key.setdefault(cell.api_key, []).append(cell)
    for api_key, cells in by_key.items():
        yield junit_suite(
            f"wire: {name_of(api_key)}", (case for cell in cells for case in _junit_cases(cell))
        )


def _junit_cases(cell: Cell) -> Iterable[tuple[ElementTree.Element, str]]:
    """Yield an element for each case of the cell, with `passed`, `failure` or `skipped`.

    A cell without verdicts has one element that says why.
    """
    group = f"{name_of(cell.api_key)}.v{cell.version}"
    if not cell.verdicts:
        element = ElementTree.Element("testcase", classname=group, name="served")
        kind = "failure" if cell.state is CellState.RED else "skipped"
        ElementTree.SubElement(element, kind, message=cell.why)
        yield element, kind
    for verdict in cell.verdicts:
        element = ElementTree.Element("testcase", classname=group, name=verdict.case.name)
        if verdict.state is CellState.RED:
            failure = ElementTree.SubElement(element, "failure", message=what_differs(verdict))
            failure.text = json.dumps(_case_json(verdict), indent=1)
        yield element, "failure" if verdict.state is CellState.RED else "passed"


def what_differs(verdict: CaseVerdict) -> str:
    """Return one sentence that says how the two brokers differ."""
    if verdict.first_difference is None:
        return verdict.problem or "nothing"
    number, difference = verdict.first_difference
    left, right = (_short(side) for side in (difference.left, difference.right))
    where = f"{difference.path} of " if difference.path else ""
    return f"{where}response {number + 1}: {left}, the oracle has {right}"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else text[:300] + "…"


# -- people


def as_html(run: WireRun) -> str:
    """Return the matrix, unknown differences, known differences, and what is not served yet."""
    parts = [
        _matrix(run.cells),
        "<h3>Differences</h3>" if run.red else "<h3>No unexplained difference</h3>",
        *[_cell_html(cell) for cell in run.red],
        _known(run),
        _grey(run),
        _table(),
    ]
    return "\n".join(parts)


def _matrix(cells: Iterable[Cell]) -> str:
    """Return the table of API keys and versions; a place without a cell stays empty."""
    by_place = {(cell.api_key, cell.version): cell for cell in cells}
    versions = range(max((v for _, v in by_place), default=0) + 1)
    rows = ["<tr><th>API<th>" + "".join(f"<th>{v}" for v in versions)]
    for key in sorted({key for key, _ in by_place}):
        row = f"<tr><td style='text-align:left'>{name_of(key)}<td>{key}"
        for version in versions:
            cell = by_place.get((key, version))
            row += _square(cell) if cell else "<td>"
        rows.append(row)
    return f"<table class=matrix>{''.join(rows)}</table>"


def _square(cell: Cell) -> str:
    """Return the table cell: its state as class, the number of cases, a link if it failed."""
    known = any(verdict.excuses for verdict in cell.verdicts)
    classes = f"{cell.state}{' excused' if known else ''}"
    count = len(cell.verdicts) or ""
    text = f"<a href='#{cell.api_key}v{cell.version}'>{count}</a>"
    shown_text = text if cell.state is CellState.RED else str(count)
    return f"<td class='{classes}' title='{html.escape(cell.why, quote=True)}'>{shown_text}"


def _cell_html(cell: Cell) -> str:
    """Return the failed cases of a cell with their requests and both brokers' responses."""
    title = f"{name_of(cell.api_key)} v{cell.version}"
    parts = [f"<h4 id='{cell.api_key}v{cell.version}'>{title}: {html.escape(cell.why)}</h4>"]
    for verdict in cell.verdicts:
        if verdict.state is not CellState.RED:
            continue
        parts.append(f"<details><summary><b>{html.escape(verdict.case.name)}</b>: ")
        parts.append(f"{html.escape(what_differs(verdict))}</summary>")
        for request, left, right in _exchanges(verdict):
            parts.append(f"<h5>{request['title']}</h5>{_pre(request['body'])}")
            parts.append(f"<div class=pair><div>subject{_pre(left)}</div>")
            parts.append(f"<div>oracle{_pre(right)}</div></div>")
        parts.append("</details>")
    return "".join(parts)


def _pre(value: object) -> str:
    return f"<pre>{html.escape(json.dumps(value, indent=1, ensure_ascii=False))}</pre>"


def _known(run: WireRun) -> str:
    """Return the table of the differences that were found and are excused."""
    rows = [
        f"<tr><td>{name_of(cell.api_key)} v{cell.version}<td>{html.escape(verdict.case.name)}"
        f"<td>{html.escape(what_differs(verdict))}<td>{html.escape(excuse.reason)}"
        for cell in run.cells
        for verdict in cell.verdicts
        for excuse in verdict.excuses
    ]
    head = "<tr><th>version<th>case<th>difference<th>reason"
    return f"<h3>Known differences</h3><table>{head}{''.join(rows)}</table>"


def _grey(run: WireRun) -> str:
    names = sorted({(c.api_key, c.why) for c in run.cells if c.state is CellState.GREY})
    items = "".join(f"<li>{name_of(key)} ({key}): {html.escape(why)}" for key, why in names)
    return f"<h3>Grey</h3><ul>{items}</ul>"


def _table() -> str:
    """Return the table of all rules by which differences are allowed."""
    rows = [
        f"<tr><td>{html.escape(field.where)}<td>{field.rule.name.lower()}"
        f"<td>{html.escape(field.reason)}"
        for field in FIELDS
    ]
    rows += [
        f"<tr><td>{html.escape(item.where)}: {item.name}"
        f"<td>{' and '.join(item.fields)} left out<td>{html.escape(item.reason)}"
        for item in ITEMS
    ]
    rows += [
        f"<tr><td>texts: {html.escape(text.pattern.pattern)}<td>replaced"
        f"<td>{html.escape(text.reason)}"
        for text in TEXTS
    ]
    rows += [
        f"<tr><td>{name_of(e.api_key)}, {html.escape(e.case)}<td>{html.escape(e.where)}"
        f"<td>{html.escape(e.reason)}"
        for e in EXCUSED
    ]
    return f"<h3>Allowed differences</h3><table>{''.join(rows)}</table>"
