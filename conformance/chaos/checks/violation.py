"""Violations, which checks find in a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from kwire.conformance.chaos.history import History


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation; `kind` is one of few words, by which they are counted, and `text` the
    details."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


Check: TypeAlias = Callable[[History], Iterable[Violation]]
