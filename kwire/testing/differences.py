"""What a topic holds beside what was expected of it, so that a person sees what is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kwire.testing.values import Record, canonical_of, encoded, line_of

if TYPE_CHECKING:
    from kwire.client.fetcher import ConsumedRecord

LINES_MAX: Final = 200
"""Of a difference that is shown: who reads more is helped by a file."""


def difference(
    expected: Sequence[Record], found: Sequence[ConsumedRecord], *, ordered: bool
) -> str | None:
    """None where `found` is what was expected; else the lines of a diff.

    Keys count where one is expected.  Lines begin with `-` for what is missing and `+` for what
    was not expected; `?` points at what two lines that are alike differ in.
    """
    keyed = any(record.key is not None for record in expected)
    value_text = canonical_of(record.value for record in expected)
    key_text = canonical_of(record.key for record in expected)
    wanted = [
        line_of(key_text(encoded(each.key)) if keyed else None, value_text(encoded(each.value)))
        for each in expected
    ]
    there = [line_of(key_text(r.key) if keyed else None, value_text(r.value)) for r in found]
    if not ordered:
        wanted.sort()
        there.sort()
    return None if wanted == there else _shown(wanted, there)


def _shown(wanted: list[str], there: list[str]) -> str:
    lines = [line.rstrip("\n") for line in difflib.ndiff(wanted, there)]
    rest = len(lines) - LINES_MAX
    if rest > 0:
        lines = [*_around_changes(lines)[:LINES_MAX], f"... and {rest} lines more"]
    return "\n".join(f"  {line}" for line in lines)


def _around_changes(lines: list[str]) -> list[str]:
    """From the first line that differs on, and the two before it."""
    first = next((number for number, line in enumerate(lines) if line[0] in "+-"), 0)
    return lines[max(0, first - 2) :]
