"""Traces: decoded requests and responses, recorded during a test.

    with kafka.trace(topic="orders") as trace:
        ...                                         # the code under test
    assert [event["api"] for event in trace.events] == ["Metadata", "Produce"]

The head of kwire.testing.hooks.tracing.traces documents the fields of an event.
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
    """The events that one broker or several record during a `with` block."""

    lost: frozenset[int] = frozenset()
    """Ids of brokers that died; their events since the last read of `events` are lost."""

    @property
    @abstractmethod
    def events(self) -> list[Event]:
        """The events up to now, in the order of the responses.  Raises ControlError."""

    @property
    @abstractmethod
    def dropped(self) -> int:
        """How many events are missing: between two reads of `events`, a broker keeps 10,000."""

    @abstractmethod
    def end(self) -> None:
        """Read the remaining events and stop recording."""

    def save(self, path: AnyPath) -> int:
        """Write the events to a file, one line of JSON each; returns how many it wrote."""
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
        """Ends the trace at the end of the `with` block, also after an exception."""
        self.end()


class BrokerTrace(Trace):
    """The trace of one broker: the requests that it answers until `end`."""

    def __init__(self, control: ControlClient, request_filter: Mapping[str, Any]) -> None:
        """Begins a trace of the requests that match at one broker.  Raises ControlError."""
        self._control = control
        self._number: int | None = control.post("/traces", request_filter)["trace"]
        self._events: list[Event] = []
        self._dropped = 0

    @property
    def dropped(self) -> int:
        return self._dropped

    @property
    def events(self) -> list[Event]:
        """The events so far.  Each call fetches only the events after the last known one from the
        broker."""
        if self._number is not None:
            last = self._events[-1]["number"] if self._events else 0
            reply = self._control.get(f"/traces/{self._number}?after={last}")
            self._events += reply["events"]
            self._dropped += reply["dropped"]
        return list(self._events)

    def end(self) -> None:
        """Reads the remaining events and ends the trace; does nothing if it has ended."""
        number = self._number
        if number is not None:
            _ = self.events  # fetches what was recorded since the last read
            self._number = None
            self._control.delete(f"/traces/{number}")
