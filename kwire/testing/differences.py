"""A readable diff between a topic's records and the expected ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kwire.testing.values import Record, canonical_of, encoded, line_of

if TYPE_CHECKING:
    from kwire.client.fetcher import ConsumedRecord

LINES_MAX: Final = 200
"""Lines of a diff that a failed assertion shows; `Topic.save` writes longer contents to a file."""


def difference(
    expected: Sequence[Record], found: Sequence[ConsumedRecord], *, ordered: bool
) -> str | None:
    """A diff between the expected records and those found, or None if they are equal.

    Keys are compared if any expected record has one.  A line with `-` is a missing record, a line
    with `+` is an unexpected one, and `?` marks the characters in which two similar lines differ.
    """
    keyed = any(record.key is not None for record in expected)
    value_text = canonical_of(record.value for record in expected)
    key_text = canonical_of(record.key for record in expected)
    expected_lines = [
        line_of(key_text(encoded(r.key)) if keyed else None, value_text(encoded(r.value)))
        for r in expected
    ]
    found_lines = [line_of(key_text(r.key) if keyed else None, value_text(r.value)) for r in found]
    if not ordered:
        expected_lines.sort()
        found_lines.sort()
    return None if expected_lines == found_lines else _diff(expected_lines, found_lines)


def _diff(expected_lines: list[str], found_lines: list[str]) -> str:
    """Return a diff, cut to LINES_MAX lines from shortly before the first difference."""
    lines = [line.rstrip("\n") for line in difflib.ndiff(expected_lines, found_lines)]
    rest = len(lines) - LINES_MAX
    if rest > 0:
        lines = [*_from_first_difference(lines)[:LINES_MAX], f"... and {rest} more lines"]
    return "\n".join(f"  {line}" for line in lines)


def _from_first_difference(lines: list[str]) -> list[str]:
    """The lines from two before the first difference on."""
    first = next((number for number, line in enumerate(lines) if line[0] in "+-"), 0)
    return lines[max(0, first - 2) :]
