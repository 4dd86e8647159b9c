"""What a broker answered, as a file: a row for each request that is answered otherwise than in the
version before, and in it the senders of each answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from kwire.conformance.access.asking import Row
from kwire.conformance.access.senders import SENDERS

ANYBODY = "(anonymous)"
Cell = tuple[str, int, Row]
Told = tuple[str, list[str]]
"""What is asked in a scene, and what is told of each thing in it."""


def text_of(cells: Iterable[Cell]) -> str:
    lines: list[str] = []
    last: tuple[str, Row] | None = None
    for name, version, row in cells:
        if last != (name, row):
            lines.append(f"{name} from v{version}")
            lines += _answers(row)
            last = name, row
    return "\n".join(lines) + "\n"


def _answers(row: Row) -> Iterator[str]:
    senders: dict[str, list[str]] = {}
    for sender in SENDERS:
        senders.setdefault(row[sender], []).append(sender or ANYBODY)
    for answer, its in senders.items():
        yield f"    {' '.join(its)}"
        yield f"        {answer}"


def text_of_scenes(told: Iterable[Told]) -> str:
    """What is asked, and indented under it what is told; once for neighbours that are told it."""
    lines: list[str] = []
    for answer, asked in groupby(told, key=itemgetter(1)):
        lines += [question for question, _ in asked]
        lines += [f"    {each}" for each in answer or ["(no error)"]]
    return "\n".join(lines) + "\n"
