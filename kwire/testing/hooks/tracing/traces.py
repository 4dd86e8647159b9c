"""Traces: which requests somebody wants to see, and what was seen of them.

An event is told once its request is answered, or is certain never to be:

    number          of the event in its trace, from 1 on
    timeMs          when the request had come, in ms since 1970
    durationMs      until its answer was there, to the microsecond
    broker          the id of the one that was asked
    connection      from where: as the broker's log names it
    client          the client id
    api, version, correlationId
    partitions      the topics and partitions it is about
    request, response   the messages (`describe`); no response where there was none
    errors          the errors that the response tells, each once
    fault, ending   the rule that befell it, and what there was instead of an answer

A trace that keeps bytes has besides, so that its requests can be sent again:

    begun, ended    the event's places in the one order of all requests and answers, also of other
                    brokers on the same machine: microseconds of its clock that only goes on
    requestBytes    the request as it came, from its header on, in base64
    responseBytes   the response without its header
    withheld        instead of either: of which of them, why it was not kept
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.codecs.messages import API_NAMES
from kwire.codecs.primitives import Buffer, Frame, Message
from kwire.testing.hooks.faults.machine import Asked, is_about
from kwire.testing.hooks.faults.rules import Which
from kwire.testing.hooks.tracing.describe import described, errors_in, has_secrets

EVENTS_MAX: Final = 10_000
"""How many events a trace keeps until they are asked for; the oldest go first, and are counted."""
TRACES_MAX: Final = 100
"""How many traces there may be: each costs every request that it is about."""

KEPT_MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of a request or response that is kept as bytes: four times what a partition takes at once
(message.max.bytes), and what a consumer of few partitions fetches."""
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of all messages that a trace keeps until they are asked for: some seconds of a busy broker, in
which whoever follows a trace asks many times.  The oldest events go first, and are counted."""

SECRET: Final = "it holds secrets"
Event = dict[str, Any]


class TooMany(ValueError):
    """There are as many traces as there may be."""


@dataclass(slots=True)
class Trace:
    """The events that one asker wants to see."""

    which: Which
    keeps_bytes: bool = False
    """Whether the events have what is said at the head of the module."""
    events: deque[Event] = field(default_factory=deque)
    seen: int = 0
    _kept_bytes: int = 0

    def add(self, event: Event, kept: Mapping[str, Any]) -> None:
        """Keep an event, under its number; `kept` are those of its fields that take room."""
        self.seen += 1
        more = kept if self.keeps_bytes else {}
        self.events.append({"number": self.seen, **event, **more})
        self._kept_bytes += _room(more)
        while len(self.events) > EVENTS_MAX or self._kept_bytes > KEPT_BYTES_MAX:
            self._kept_bytes -= _room(self.events.popleft())

    def after(self, number: int) -> dict[str, Any]:
        """The events behind that one, and how many of those are no longer there."""
        found = [event for event in self.events if event["number"] > number]
        forgotten = self.seen - len(self.events)
        return {"events": found, "dropped": max(0, forgotten - number)}


def _room(event: Mapping[str, Any]) -> int:
    """How many bytes what is kept of it takes."""
    return sum(len(event.get(name, "")) for name in ("requestBytes", "responseBytes"))


class Kept:
    """What those traces have of a request that keep bytes."""

    def __init__(self, begun: int, request: Message, frame: Buffer) -> None:
        self.fields: Event = {"begun": begun}
        self._add("request", request, len(frame), lambda: frame)

    def response(self, response: Message, version: int) -> None:
        """It is answered."""
        out = Frame()
        response.write(out, version)
        self._add("response", response, out.wire_size, out.tobytes)

    def _add(self, what: str, message: Message, size: int, data: Callable[[], Buffer]) -> None:
        if has_secrets(message):
            self._withhold(what, SECRET)
        elif size > KEPT_MESSAGE_BYTES_MAX:
            self._withhold(what, f"its {size} bytes are more than {KEPT_MESSAGE_BYTES_MAX}")
        else:
            self.fields[f"{what}Bytes"] = base64.b64encode(data()).decode()

    def _withhold(self, what: str, why: str) -> None:
        self.fields.setdefault("withheld", {})[what] = why


class Seen:
    """A request on its way to being an event of the traces that want it."""

    def __init__(
        self, traces: list[Trace], event: Event, kept: Kept | None, clocks: Clocks
    ) -> None:
        self._traces = traces
        self._event = event
        self._kept = kept
        self._clocks = clocks
        self._start_s = clocks.elapsed_s()
        self.befallen = False
        """Whether a fault decides when it is over."""
        self._ended: int | None = None
        """The place of its answer, where that was decided before it is told."""

    def decided(self) -> None:
        """What it is answered is so from now on, though others may come before that is told."""
        self._ended = self._clocks.place()

    def answered(self, response: Message | None) -> None:
        """This is its answer, None where there is to be none (acks=0)."""
        if response is not None:
            self._event["response"] = described(response)
            self._event["errors"] = list(dict.fromkeys(errors_in(response)))
            if self._kept is not None:
                self._kept.response(response, self._event["version"])
        if not self.befallen:
            self.over()

    def over(self, **more: object) -> None:
        """It is done with; `more` says how, where that was not by an answer."""
        elapsed_s = self._clocks.elapsed_s() - self._start_s
        self._event |= {"durationMs": round(elapsed_s * 1000, 3), **more}
        kept: Event = {}
        if self._kept is not None:
            ended = self._clocks.place() if self._ended is None else self._ended
            kept = self._kept.fields | {"ended": ended}
        for trace in self._traces:
            trace.add(self._event, kept)


@dataclass(slots=True)
class Clocks:
    """The time in ms since 1970, and the machine's clock that only goes on."""

    now_ms: Callable[[], int]
    elapsed_s: Callable[[], float]
    _last_place: int = 0

    def place(self) -> int:
        """Of what happens now, in the order of all: no two have the same at one broker.

        What somebody does who has heard of it, at another broker of the machine, comes behind it.
        """
        self._last_place = max(self._last_place + 1, int(self.elapsed_s() * 1_000_000))
        return self._last_place


class Traces:
    """All traces of a broker; `now_ms` is the time, and `elapsed_s` a clock that only goes on.

    That one is the same for all brokers of a machine.
    """

    def __init__(self, now_ms: Callable[[], int], elapsed_s: Callable[[], float]) -> None:
        self._clocks = Clocks(now_ms, elapsed_s)
        self._traces: dict[int, Trace] = {}
        self._last = 0

    def __bool__(self) -> bool:
        """Whether anybody wants to see anything."""
        return bool(self._traces)

    def begin(self, which: Which, *, keeps_bytes: bool = False) -> int:
        """See these requests from now on; the number of the trace.  Raises TooMany."""
        if len(self._traces) >= TRACES_MAX:
            raise TooMany(f"there are {TRACES_MAX} traces already: end one first")
        self._last += 1
        self._traces[self._last] = Trace(which, keeps_bytes)
        return self._last

    def to_json(self) -> list[dict[str, int]]:
        """The traces, with how many events each has seen."""
        return [{"trace": number, "seen": trace.seen} for number, trace in self._traces.items()]

    def get(self, number: int) -> Trace | None:
        return self._traces.get(number)

    def end(self, number: int) -> bool:
        """See them no longer, and forget what was seen; whether there was such a trace."""
        return self._traces.pop(number, None) is not None

    def see(
        self, asked: Asked, broker: int, connection: str, correlation_id: int, frame: Buffer = b""
    ) -> Seen | None:
        """A request has come to this broker, in this frame; None where nobody wants to see it."""
        wanted = [trace for trace in self._traces.values() if is_about(trace.which, asked)]
        if not wanted:
            return None
        event = {
            "timeMs": self._clocks.now_ms(),
            "broker": broker,
            "connection": connection,
            "client": asked.client_id,
            "api": API_NAMES[asked.api_key],
            "version": asked.api_version,
            "correlationId": correlation_id,
            "partitions": [{"topic": topic, "partition": index} for topic, index in asked.parts],
            "request": described(asked.request),
            "errors": [],
        }
        kept = None
        if any(trace.keeps_bytes for trace in wanted):
            kept = Kept(self._clocks.place(), asked.request, frame)
        return Seen(wanted, event, kept, self._clocks)
