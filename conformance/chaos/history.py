"""The history of a round: the begin and end of every operation, in the order of time.

It has one JSON object in each line:

    {"time_ns": n, "process": "...", "type": "invoke|ok|fail|info", "f": "...", "op": n, ...}

`time_ns` counts from the start of the round on a monotonic clock. `op` joins the begin of an
operation with its end, and `f` names the operation. The other fields depend on `f`; the workload
that records them describes them. An `ok` operation took effect, a `fail` operation certainly did
not, and an `info` operation may have, now or later. An operation without an end counts as `info`.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

Value: TypeAlias = dict[str, Any]

NEMESIS = "nemesis"
"""The process that injects the faults."""
JUDGE = "judge"
"""The process that reads the end state when the faults are over."""
OPS_MAX = 1 << 32
"""Limit on the operations of one process."""


class Type(StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history."""

    time_ns: int
    process: str
    type: Type
    f: str
    op: int
    value: Value = field(default_factory=dict)

    def line(self) -> str:
        named = {"time_ns": self.time_ns, "process": self.process, "type": self.type}
        return json.dumps({**named, "f": self.f, "op": self.op, **self.value})


@dataclass(frozen=True, slots=True)
class HistoryOperation:
    """An operation's arguments and result; `ended_ns` is None if it has no end in the history."""

    process: str
    f: str
    type: Type
    invoked_ns: int
    ended_ns: int | None
    arguments: Value
    result: Value

    @property
    def ok(self) -> bool:
        return self.type is Type.OK


class History:
    """All events of a round in the order of time."""

    def __init__(self, events: Iterable[Event]) -> None:
        """Join the begin of each operation with its end."""
        self.events = sorted(events, key=lambda event: event.time_ns)
        self._operations: dict[str, list[HistoryOperation]] = {}
        ends = {event.op: event for event in self.events if event.type is not Type.INVOKE}
        for event in self.events:
            if event.type is Type.INVOKE:
                self._operations.setdefault(event.f, []).append(
                    _join_events(event, ends.get(event.op))
                )

    @classmethod
    def read(cls, *paths: Path) -> History:
        """Return the history in one file, or in the files of several processes.

        The last line may be incomplete if its process was killed. Raises OSError and ValueError.
        """
        return cls(event for path in paths for event in _events_in(path))

    def operations(self, f: str) -> list[HistoryOperation]:
        """Return all operations of one name, in the order of their begin."""
        return self._operations.get(f, [])

    def all_operations(self) -> Iterator[HistoryOperation]:
        for operations in self._operations.values():
            yield from operations


def _join_events(begin: Event, end: Event | None) -> HistoryOperation:
    """Return the operation of a begin and its end; without an end its outcome is unknown (info)."""
    if end is None:
        return HistoryOperation(
            begin.process, begin.f, Type.INFO, begin.time_ns, None, begin.value, {"error": "no end"}
        )
    return HistoryOperation(
        begin.process, begin.f, end.type, begin.time_ns, end.time_ns, begin.value, end.value
    )


def _events_in(path: Path) -> Iterator[Event]:
    """Yield the events of a file; the last line is left out if it is incomplete."""
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield _parse_event(json.loads(line))


def _parse_event(line: Value) -> Event:
    named = (line.pop(name) for name in ("time_ns", "process", "type", "f", "op"))
    time_ns, process, kind, f, op = named
    return Event(time_ns, process, Type(kind), f, op, line)


class Recorder:
    """Writes a history while it happens, from any thread, and keeps it in memory.

    With several processes, each one has its own file and `number`, and all of them count time from
    `began_ns` of the machine's clock. Each line is written at once, since a process may be killed.
    """

    def __init__(self, path: Path, began_ns: int | None = None, number: int = 0) -> None:
        self._file = path.open("w", buffering=1)
        self.began_ns = time.monotonic_ns() if began_ns is None else began_ns
        self._ops = itertools.count(number * OPS_MAX)
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.began_ns

    def invoke(self, process: str, f: str, **value: object) -> Event:
        """Record the begin of an operation; pass the returned event to `end`."""
        return self.invoke_at(self.now_ns(), process, f, value)

    def invoke_at(self, time_ns: int, process: str, f: str, value: Value) -> Event:
        """Record the begin of an operation at an earlier time, once it turns out to be worth it."""
        return self._record(Event(time_ns, process, Type.INVOKE, f, next(self._ops), value))

    def end(self, begin: Event, type_: Type, **value: object) -> None:
        self._record(Event(self.now_ns(), begin.process, type_, begin.f, begin.op, value))

    def note(self, process: str, f: str, **value: object) -> None:
        """Record an operation that takes no time."""
        self.end(self.invoke(process, f, **value), Type.OK)

    def _record(self, event: Event) -> Event:
        """Keep an event and write it to the file; several threads may record."""
        with self._lock:
            self._events.append(event)
            self._file.write(event.line() + "\n")
        return event

    def close(self) -> History:
        """Close the file; all recorded events as a history."""
        with self._lock:
            self._file.close()
            return History(self._events)
