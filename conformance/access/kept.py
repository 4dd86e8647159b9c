"""The text format of recorded responses.

A matrix has a section for each request whose responses differ from those of the version before; it
lists each response with the senders that get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from kwire.conformance.access.asking import Row
from kwire.conformance.access.senders import SENDERS

ANYBODY = "(anonymous)"
MatrixRow = tuple[str, int, Row]
SceneAnswer = tuple[str, list[str]]
"""A request of a scene, and what its response says about each thing."""


def text_of(cells: Iterable[MatrixRow]) -> str:
    """Return the text of a matrix; a version is left out if it answers as the one before."""
    lines: list[str] = []
    last: tuple[str, Row] | None = None
    for name, version, row in cells:
        if last != (name, row):
            lines.append(f"{name} from v{version}")
            lines += _answers(row)
            last = name, row
    return "\n".join(lines) + "\n"


def _answers(row: Row) -> Iterator[str]:
    """Yield each distinct answer of a row, below the senders that get it."""
    senders: dict[str, list[str]] = {}
    for sender in SENDERS:
        senders.setdefault(row[sender], []).append(sender or ANYBODY)
    for answer, names in senders.items():
        yield f"    {' '.join(names)}"
        yield f"        {answer}"


def text_of_scenes(answers: Iterable[SceneAnswer]) -> str:
    """Return each request with its response indented below; neighbours with equal responses share
    it."""
    lines: list[str] = []
    for answer, group in groupby(answers, key=itemgetter(1)):
        lines += [request for request, _ in group]
        lines += [f"    {text}" for text in answer or ["(no error)"]]
    return "\n".join(lines) + "\n"
