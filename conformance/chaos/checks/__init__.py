"""Checks: pure functions that take a history and return its violations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kwire.conformance.chaos.checks.violation import Check, Violation
from kwire.conformance.chaos.history import History

__all__ = ["Check", "Violation", "violations"]

SHOWN_MAX = 5
"""Limit on violations of one kind, since one defect often causes a thousand of them."""


def violations(history: History, checks: Sequence[Check]) -> list[Violation]:
    """Return the violations that the checks find: a few of each kind, and the number of the
    others."""
    return [violation for check in checks for violation in _limit_violations(list(check(history)))]


def _limit_violations(all_violations: list[Violation]) -> Iterable[Violation]:
    """Yield at most SHOWN_MAX violations of each kind, and how many more there are."""
    kinds = dict.fromkeys(violation.kind for violation in all_violations)
    for kind in kinds:
        same = [violation for violation in all_violations if violation.kind == kind]
        yield from same[:SHOWN_MAX]
        if len(same) > SHOWN_MAX:
            yield Violation(kind, f"and {len(same) - SHOWN_MAX} more")
