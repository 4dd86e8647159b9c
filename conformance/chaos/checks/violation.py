"""What a check finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from kwire.conformance.chaos.history import History


@dataclass(frozen=True, slots=True)
class Violation:
    """`kind` is one of few words, by which violations are counted; `text` says what and where."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


Check: TypeAlias = Callable[[History], Iterable[Violation]]
