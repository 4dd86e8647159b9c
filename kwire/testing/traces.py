"""Requests and their answers, decoded, as a test sees them.

    with kafka.trace(topic="orders") as seen:
        ...                                         # what is tested
    assert [event["api"] for event in seen.events] == ["Metadata", "Produce"]

What an event says is at the head of kwire.testing.hooks.tracing.traces.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kwire.testing.control import ControlClient
from kwire.testing.values import Path as AnyPath

Event = Mapping[str, Any]


class Trace(ABC):
    """What is seen in a `with` block, of one broker or of several."""

    lost: frozenset[int] = frozenset()
    """Of several the brokers that have died, with what they had seen since the last look."""

    @property
    @abstractmethod
    def events(self) -> list[Event]:
        """What was seen by now, in the order of the answers.  Raises ControlError."""

    @property
    @abstractmethod
    def dropped(self) -> int:
        """How many came too fast to be kept: 10,000 are, between two looks."""

    @abstractmethod
    def end(self) -> None:
        """Take what was seen, and see no more."""

    def save(self, path: AnyPath) -> int:
        """Write the events to a file, a line of JSON each; how many there were."""
        events = self.events
        lines = (f"{json.dumps(event, ensure_ascii=False)}\n" for event in events)
        Path(path).write_text("".join(lines), encoding="utf-8")
        return len(events)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


class BrokerTrace(Trace):
    """The requests that were answered since it was begun, and until it ends."""

    def __init__(self, control: ControlClient, which: Mapping[str, Any]) -> None:
        self._control = control
        self._number: int | None = control.post("/traces", which)["trace"]
        self._events: list[Event] = []
        self._dropped = 0

    @property
    def dropped(self) -> int:
        return self._dropped

    @property
    def events(self) -> list[Event]:
        if self._number is not None:
            last = self._events[-1]["number"] if self._events else 0
            seen = self._control.get(f"/traces/{self._number}?after={last}")
            self._events += seen["events"]
            self._dropped += seen["dropped"]
        return list(self._events)

    def end(self) -> None:
        number = self._number
        if number is not None:
            _ = self.events
            self._number = None
            self._control.delete(f"/traces/{number}")
