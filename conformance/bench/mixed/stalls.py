"""The long passes of a watched loop, and their causes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

MOSTLY = 0.5
"""The share of a pass from which something is its cause."""


class LongPass(NamedTuple):
    """One pass of the loop that took long; see watched.py for the fields."""

    at_s: float
    wall_ms: float
    cpu_ms: float
    queue_ms: float
    gc_ms: float
    stacks: list[tuple[list[str], int]]

    @classmethod
    def read(cls, line: str) -> Self:
        """Return the pass of one line of the file."""
        return cls.of(json.loads(line))

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """Return the pass of the fields of a JSON object."""
        return cls(**fields)

    @property
    def own_ms(self) -> float:
        """How long it would have taken with a processor of its own."""
        return max(0.0, self.wall_ms - self.queue_ms)

    @property
    def cause(self) -> str:
        """What took most of its own time."""
        if self.gc_ms >= MOSTLY * self.own_ms:
            return "garbage collection"
        if self.cpu_ms < MOSTLY * self.own_ms:
            return f"waiting in {self.place}"
        return self.place

    @property
    def place(self) -> str:
        """The file and function in which the loop was seen most often."""
        if not self.stacks:
            return "(not seen)"
        innermost = self.stacks[0][0][0]
        path, _, function = innermost.rpartition(" ")
        return f"{path.rpartition(':')[0]} {function}"


class StallCause(NamedTuple):
    """All long passes of one cause."""

    name: str
    passes: int
    total_ms: float
    longest: LongPass


def read(path: Path) -> list[LongPass]:
    """Return the passes in a file of watched.py; the last line may be incomplete."""
    lines = path.read_text().splitlines(keepends=True)
    return [LongPass.read(line) for line in lines if line.endswith("\n")]


def by_cause(passes: Iterable[LongPass]) -> list[StallCause]:
    """Return the causes, that of the longest pass first."""
    groups: defaultdict[str, list[LongPass]] = defaultdict(list)
    for each in passes:
        groups[each.cause].append(each)
    causes = [
        StallCause(name, len(some), sum(each.own_ms for each in some), longest(some))
        for name, some in groups.items()
    ]
    return sorted(causes, key=lambda cause: cause.longest.own_ms, reverse=True)


def longest(passes: Sequence[LongPass]) -> LongPass:
    """Return the pass that took longest."""
    return max(passes, key=lambda each: each.own_ms)
