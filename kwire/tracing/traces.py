"""Traces: which requests somebody wants to see, and what was seen of them.

An event is told once its request is answered, or is certain never to be:

    number          of the event in its trace, from 1 on
    timeMs          when the request had come, in ms since 1970
    durationMs      until its answer was there, to the microsecond
    connection      from where: as the broker's log names it
    client          the client id
    api, version, correlationId
    partitions      the topics and partitions it is about
    request, response   the messages (kwire.tracing.describe); no response where there was none
    errors          the errors that the response tells, each once
    fault, ending   the rule that befell it, and what there was instead of an answer
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.codecs.primitives import Message
from kwire.faults.machine import Asked, is_about
from kwire.faults.rules import Which, api_name
from kwire.tracing.describe import described, errors_in

EVENTS_MAX: Final = 10_000
"""How many events a trace keeps until they are asked for; the oldest go first, and are counted."""
TRACES_MAX: Final = 100
"""How many traces there may be: each costs every request that it is about."""

Event = dict[str, Any]


class TooMany(ValueError):
    """There are as many traces as there may be."""


@dataclass(slots=True)
class Trace:
    """The events that one asker wants to see."""

    which: Which
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    seen: int = 0

    def add(self, event: Event) -> None:
        """Keep an event, under its number."""
        self.seen += 1
        self.events.append({"number": self.seen, **event})

    def after(self, number: int) -> dict[str, Any]:
        """The events behind that one, and how many of those are no longer there."""
        found = [event for event in self.events if event["number"] > number]
        forgotten = self.seen - len(self.events)
        return {"events": found, "dropped": max(0, forgotten - number)}


class Seen:
    """A request on its way to being an event of the traces that want it."""

    def __init__(self, traces: list[Trace], event: Event, elapsed_s: Callable[[], float]) -> None:
        self._traces = traces
        self._event = event
        self._elapsed_s = elapsed_s
        self._start_s = elapsed_s()
        self.befallen = False
        """Whether a fault decides when it is over."""

    def answered(self, response: Message | None) -> None:
        """This is its answer, None where there is to be none (acks=0)."""
        if response is not None:
            self._event["response"] = described(response)
            self._event["errors"] = list(dict.fromkeys(errors_in(response)))
        if not self.befallen:
            self.over()

    def over(self, **more: object) -> None:
        """It is done with; `more` says how, where that was not by an answer."""
        elapsed_s = self._elapsed_s() - self._start_s
        self._event |= {"durationMs": round(elapsed_s * 1000, 3), **more}
        for trace in self._traces:
            trace.add(self._event)


class Traces:
    """All traces of a broker; `now_ms` is the time, and `elapsed_s` a clock that only goes on."""

    def __init__(self, now_ms: Callable[[], int], elapsed_s: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._elapsed_s = elapsed_s
        self._traces: dict[int, Trace] = {}
        self._last = 0

    def __bool__(self) -> bool:
        """Whether anybody wants to see anything."""
        return bool(self._traces)

    def begin(self, which: Which) -> int:
        """See these requests from now on; the number of the trace.  Raises TooMany."""
        if len(self._traces) >= TRACES_MAX:
            raise TooMany(f"there are {TRACES_MAX} traces already: end one first")
        self._last += 1
        self._traces[self._last] = Trace(which)
        return self._last

    def to_json(self) -> list[dict[str, int]]:
        """The traces, with how many events each has seen."""
        return [{"trace": number, "seen": trace.seen} for number, trace in self._traces.items()]

    def get(self, number: int) -> Trace | None:
        return self._traces.get(number)

    def end(self, number: int) -> bool:
        """See them no longer, and forget what was seen; whether there was such a trace."""
        return self._traces.pop(number, None) is not None

    def see(self, asked: Asked, connection: str, correlation_id: int) -> Seen | None:
        """A request has come; None where nobody wants to see it."""
        wanted = [trace for trace in self._traces.values() if is_about(trace.which, asked)]
        if not wanted:
            return None
        event = {
            "timeMs": self._now_ms(),
            "connection": connection,
            "client": asked.client_id,
            "api": api_name(asked.api_key),
            "version": asked.api_version,
            "correlationId": correlation_id,
            "partitions": [{"topic": topic, "partition": index} for topic, index in asked.parts],
            "request": described(asked.request),
            "errors": [],
        }
        return Seen(wanted, event, self._elapsed_s)
