"""The result of a replay, as objects, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kwire.codecs.errors import error_name
from kwire.testing.comparing.differences import Difference
from kwire.testing.comparing.normal import Tree
from kwire.testing.replaying.recording import Recorded

SHOWN_VALUE_CHARACTERS_MAX: Final = 200
SHOWN_DIFFERENCES_MAX: Final = 20
"""Differences of one response in the text: a different list may differ in each of its items."""


class Differing(NamedTuple):
    """A request whose response differs from the recorded one."""

    request: Recorded
    differences: tuple[Difference, ...]


class Left(NamedTuple):
    """A request that was not sent, not compared or sent again, and why."""

    request: Recorded
    why: str


@dataclass
class Outcome:
    """The result of a replay: which requests were sent, compared, and answered differently."""

    sent: int = 0
    compared: int = 0
    lacking: int = 0
    """How many requests the trace does not hold, because the broker dropped their events."""
    differing: list[Differing] = field(default_factory=list)
    unsent: list[Left] = field(default_factory=list)
    uncompared: list[Left] = field(default_factory=list)
    asked_again: list[Left] = field(default_factory=list)
    """Requests that were sent again, with the broker's retriable errors."""

    @property
    def same(self) -> bool:
        """Whether every compared response equals the recorded one."""
        return not self.differing

    def assert_same(self) -> None:
        """Raise AssertionError with the differences unless the outcome is `same`."""
        __tracebackhide__ = True  # pytest shows the line of the test
        assert self.same, str(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The text: differences, requests that were left out, and a summary as the last line."""
        for request, differences in self.differing:
            yield f"{request}:"
            for difference in differences[:SHOWN_DIFFERENCES_MAX]:
                yield f"    {in_words(difference)}"
            if len(differences) > SHOWN_DIFFERENCES_MAX:
                yield f"    and {len(differences) - SHOWN_DIFFERENCES_MAX} more"
        for title, left in (
            ("not sent", self.unsent),
            ("not compared", self.uncompared),
            ("asked again", self.asked_again),
        ):
            yield from (f"{title}: {request}: {why}" for request, why in left)
        if self.lacking:
            yield f"the trace lacks {self.lacking} of the requests that it had seen"
        yield (
            f"{self.sent} requests sent, {self.compared} answers compared: "
            f"{self.compared - len(self.differing)} the same, {len(self.differing)} not"
        )

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON."""
        return {
            "same": self.same,
            "sent": self.sent,
            "compared": self.compared,
            "lacking": self.lacking,
            "differing": [
                {
                    **_named(request),
                    "differences": [
                        {"path": each.path, "recorded": each.left, "now": each.right}
                        for each in differences
                    ],
                }
                for request, differences in self.differing
            ],
            "notSent": [{**_named(request), "why": why} for request, why in self.unsent],
            "notCompared": [{**_named(request), "why": why} for request, why in self.uncompared],
            "askedAgain": [{**_named(request), "why": why} for request, why in self.asked_again],
        }


def _named(request: Recorded) -> dict[str, Any]:
    """Return the fields by which JSON names a request of the trace.  `broker` is left out for a
    trace of one broker."""
    return {
        "line": request.line,
        "api": request.api,
        "version": request.version,
        "client": request.client,
        **({} if request.broker is None else {"broker": request.broker}),
        "connection": request.connection,
    }


def in_words(difference: Difference) -> str:
    """A line such as `topics[0].error_code: NONE was recorded, now NOT_COORDINATOR`."""
    left, right = (_shown(difference.path, each) for each in (difference.left, difference.right))
    where = f"{difference.path}: " if difference.path else ""
    return f"{where}{left} was recorded, now {right}"


def _shown(path: str, value: Tree) -> str:
    """Return a value as text for a report: errors by name, long values cut."""
    if path.endswith("error_code") and isinstance(value, int):
        return error_name(value)
    text = value if isinstance(value, str) and not path else json.dumps(value, ensure_ascii=False)
    cut = SHOWN_VALUE_CHARACTERS_MAX
    return text if len(text) <= cut else f"{text[:cut]}…"
