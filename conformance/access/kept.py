"""What a broker answered, as a file: a row for each request that is answered otherwise than in the
version before, and in it the senders of each answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.conformance.access.asking import Row
from kwire.conformance.access.senders import SENDERS

ANYBODY = "(anonymous)"
Cell = tuple[str, int, Row]


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
