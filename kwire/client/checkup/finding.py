"""A finding about a running cluster: what is wrong, where, why it matters, and how to fix it."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

NAMED_MAX: Final = 5
"""How many topics or partitions a finding names.  The number of all is in its text."""


class CheckGrade(enum.Enum):
    """How serious a finding is, the most serious first."""

    BROKEN = "broken"
    """Something does not work, or soon will not."""
    RISK = "risk"
    """Records or availability are lost if one more thing fails."""
    NOTE = "note"
    """Works as it is; worth knowing."""
    UNCHECKED = "unchecked"
    """A check that could not be made, with the reason."""


class ClusterFinding(NamedTuple):
    """One finding.  `check` is the name of the check, which does not change between versions."""

    grade: CheckGrade
    check: str
    about: str
    """Where: a broker, a topic, a bootstrap server."""
    says: str
    """What is wrong, and what follows from it."""
    remedy: str | None = None
    """What to do, as a command where one does it."""


def by_grade(findings: Sequence[ClusterFinding]) -> list[ClusterFinding]:
    """The findings, the most serious ones first."""
    order = list(CheckGrade)
    return sorted(findings, key=lambda each: order.index(each.grade))


def named(names: Sequence[str], noun: str) -> str:
    """`topic a`, or `topics a, b`, or `12 topics, such as a, b, c, d, e`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    if len(names) <= NAMED_MAX:
        return f"{noun}s {', '.join(names)}"
    return f"{len(names)} {noun}s, such as {', '.join(names[:NAMED_MAX])}"


def brokers_text(ids: list[int]) -> str:
    """`broker 1`, or `brokers 1, 2`; empty without any."""
    if not ids:
        return ""
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, sorted(ids)))}"


def quoted(name: str) -> str:
    """A name as a word of a shell command, so that a remedy can be pasted."""
    return shlex.quote(name)


def listed(names: Sequence[str]) -> str:
    """Up to NAMED_MAX names as words of a shell command; `...` stands for the others."""
    words = [quoted(name) for name in names[:NAMED_MAX]]
    return " ".join([*words, "..."] if len(names) > NAMED_MAX else words)
