"""Checks: pure functions that take a history and return its violations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kwire.conformance.chaos.checks.violation import Check, Violation
from kwire.conformance.chaos.history import History

__all__ = ["Check", "Violation", "violations"]

SHOWN_MAX = 5
"""Of each kind: what a broker loses, it often loses a thousand times."""


def violations(history: History, checks: Sequence[Check]) -> list[Violation]:
    """What the checks find, at most a few of each kind and a count of the others."""
    return [found for check in checks for found in _shortened(list(check(history)))]


def _shortened(found: list[Violation]) -> Iterable[Violation]:
    kinds = dict.fromkeys(violation.kind for violation in found)
    for kind in kinds:
        same = [violation for violation in found if violation.kind == kind]
        yield from same[:SHOWN_MAX]
        if len(same) > SHOWN_MAX:
            yield Violation(kind, f"and {len(same) - SHOWN_MAX} more")
