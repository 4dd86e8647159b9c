"""Traces: events about the requests and responses of a broker, for tests.

An event is recorded once its request is answered, or will certainly not be answered.  Its fields:

    number              of the event in its trace, from 1 on
    timeMs              when the request arrived, in ms since 1970
    durationMs          from the request's arrival to the response, with microseconds
    broker              id of the broker
    connection          id of the connection, as in the broker's log
    client              the client id
    api, version, correlationId
    partitions          the topics and partitions that the request is about
    request, response   the messages (see `describe`); no response if there was none
    errors              names of the errors in the response, without duplicates
    fault, ending       number of the fault rule that was injected, and what happened instead of a
                        response

A trace that keeps bytes, so that its requests can be replayed, has these fields, too:

    begun, ended        positions of the request and the response in the order of all requests and
                        responses, also those of other brokers on the same machine: microseconds of
                        the machine's monotonic clock
    requestBytes        the request from its header on, in base64
    responseBytes       the response without its header, in base64
    withheld            why the bytes of the request or response are missing
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.codecs.messages import API_NAMES
from kwire.codecs.primitives import Buffer, Frame, Message
from kwire.testing.hooks.faults.machine import RequestInfo, is_about
from kwire.testing.hooks.faults.rules import RequestFilter
from kwire.testing.hooks.tracing.describe import described, errors_in, has_secrets

EVENTS_MAX: Final = 10_000
"""How many events a trace keeps until they are read; the oldest are dropped and counted."""
TRACES_MAX: Final = 100
"""How many traces a broker may have; each one costs time for every request that it matches."""

KEPT_MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Size up to which a request or response is kept as bytes: four times the default of
message.max.bytes, and the size of a fetch from a few partitions."""
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Total size of the bytes that a trace keeps until they are read: some seconds of a busy broker,
during which a reader that follows the trace reads many times.  The oldest events are dropped and
counted."""

SECRET: Final = "it holds secrets"
Event = dict[str, Any]


class TooMany(ValueError):
    """The broker already has the maximum number of traces."""


@dataclass(slots=True)
class RecordedTrace:
    """One trace: a filter of requests, and the events that it has not dropped."""

    which: RequestFilter
    keeps_bytes: bool = False
    """Whether the events have the fields for a replay."""
    events: deque[Event] = field(default_factory=deque)
    seen: int = 0
    """Number of all events, including the dropped ones."""
    _kept_bytes: int = 0

    def add(self, event: Event, byte_fields: Mapping[str, Any]) -> None:
        """Add an event; `byte_fields` are added to it if this trace keeps bytes."""
        self.seen += 1
        more = byte_fields if self.keeps_bytes else {}
        self.events.append({"number": self.seen, **event, **more})
        self._kept_bytes += _kept_size(more)
        while len(self.events) > EVENTS_MAX or self._kept_bytes > KEPT_BYTES_MAX:
            self._kept_bytes -= _kept_size(self.events.popleft())

    def after(self, number: int) -> dict[str, Any]:
        """The events with higher numbers, and how many of those were dropped."""
        events = [event for event in self.events if event["number"] > number]
        dropped = self.seen - len(self.events)
        return {"events": events, "dropped": max(0, dropped - number)}


def _kept_size(event: Mapping[str, Any]) -> int:
    """How many bytes the event's kept messages take in base64."""
    return sum(len(event.get(name, "")) for name in ("requestBytes", "responseBytes"))


class TracedBytes:
    """The fields of an event that only traces with bytes have."""

    def __init__(self, begun: int, request: Message, frame: Buffer) -> None:
        self.fields: Event = {"begun": begun}
        self._add("request", request, len(frame), lambda: frame)

    def response(self, response: Message, version: int) -> None:
        """Add the response to the request."""
        out = Frame()
        response.write(out, version)
        self._add("response", response, out.wire_size, out.tobytes)

    def _add(self, what: str, message: Message, size: int, data: Callable[[], Buffer]) -> None:
        """Stores a message's bytes in the event as base64, or why they are left out: the message
        has a secret, or is too large.  `data` is called only if they are stored."""
        if has_secrets(message):
            self._withhold(what, SECRET)
        elif size > KEPT_MESSAGE_BYTES_MAX:
            self._withhold(what, f"its {size} bytes are more than {KEPT_MESSAGE_BYTES_MAX}")
        else:
            self.fields[f"{what}Bytes"] = base64.b64encode(data()).decode()

    def _withhold(self, what: str, why: str) -> None:
        self.fields.setdefault("withheld", {})[what] = why


class TracedRequest:
    """A request that is being served, and becomes an event of the traces that match it."""

    def __init__(
        self,
        traces: list[RecordedTrace],
        event: Event,
        kept: TracedBytes | None,
        clocks: TraceClocks,
    ) -> None:
        """`traces` receive the event when the request is over.  `kept` collects the bytes of the
        messages; None if no trace wants them."""
        self._traces = traces
        self._event = event
        self._kept = kept
        self._clocks = clocks
        self._start_s = clocks.elapsed_s()
        self.befallen = False
        """Whether a fault was injected, which decides when the request is over."""
        self._ended: int | None = None
        """Position of the response, if it was decided before the response was complete."""

    def decided(self) -> None:
        """Fix the response's position in the order of all requests now, before it is complete."""
        self._ended = self._clocks.place()

    def answered(self, response: Message | None) -> None:
        """Note the response; None if the request gets none (acks=0)."""
        if response is not None:
            self._event["response"] = described(response)
            self._event["errors"] = list(dict.fromkeys(errors_in(response)))
            if self._kept is not None:
                self._kept.response(response, self._event["version"])
        if not self.befallen:
            self.over()

    def over(self, **more: object) -> None:
        """Add the event to the traces; `more` are fields about an end without a response."""
        elapsed_s = self._clocks.elapsed_s() - self._start_s
        self._event |= {"durationMs": round(elapsed_s * 1000, 3), **more}
        byte_fields: Event = {}
        if self._kept is not None:
            ended = self._clocks.place() if self._ended is None else self._ended
            byte_fields = self._kept.fields | {"ended": ended}
        for trace in self._traces:
            trace.add(self._event, byte_fields)


@dataclass(slots=True)
class TraceClocks:
    """The broker's time in ms since 1970, and the machine's monotonic clock in s."""

    now_ms: Callable[[], int]
    elapsed_s: Callable[[], float]
    _last_place: int = 0

    def place(self) -> int:
        """A position for what happens now, in the order of all requests and responses.

        It is unique at this broker.  What happens later because of it, also at another broker of
        the machine, gets a higher position.
        """
        self._last_place = max(self._last_place + 1, int(self.elapsed_s() * 1_000_000))
        return self._last_place


class Traces:
    """All traces of a broker.

    `now_ms` returns the broker's time.  `elapsed_s` is a monotonic clock, the same for all brokers
    of a machine.
    """

    def __init__(self, now_ms: Callable[[], int], elapsed_s: Callable[[], float]) -> None:
        self._clocks = TraceClocks(now_ms, elapsed_s)
        self._traces: dict[int, RecordedTrace] = {}
        self._last = 0

    def __bool__(self) -> bool:
        """Whether there are any traces."""
        return bool(self._traces)

    def begin(self, which: RequestFilter, *, keeps_bytes: bool = False) -> int:
        """Begin a trace of the requests that match; returns its number.  Raises TooMany."""
        if len(self._traces) >= TRACES_MAX:
            raise TooMany(f"there are {TRACES_MAX} traces already: end one first")
        self._last += 1
        self._traces[self._last] = RecordedTrace(which, keeps_bytes)
        return self._last

    def to_json(self) -> list[dict[str, int]]:
        """The numbers of the traces, and how many events each has recorded."""
        return [{"trace": number, "seen": trace.seen} for number, trace in self._traces.items()]

    def get(self, number: int) -> RecordedTrace | None:
        return self._traces.get(number)

    def end(self, number: int) -> bool:
        """End a trace and forget its events; returns whether it existed."""
        return self._traces.pop(number, None) is not None

    def see(
        self,
        asked: RequestInfo,
        broker: int,
        connection: str,
        correlation_id: int,
        frame: Buffer = b"",
    ) -> TracedRequest | None:
        """Note the arrival of a request; returns None if no trace matches it."""
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
            kept = TracedBytes(self._clocks.place(), asked.request, frame)
        return TracedRequest(wanted, event, kept, self._clocks)
