"""A trace of several brokers, merged into one order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kwire.testing.control import ControlError
from kwire.testing.traces import BrokerTrace, Event, Trace


class JoinedTrace(Trace):
    """The traces of several brokers, read as one.

    When a broker dies, its events since the last read are lost.  Its trace does not continue after
    a restart.
    """

    def __init__(self, at: Mapping[int, BrokerTrace], is_alive: Callable[[int], bool]) -> None:
        """`at` has the traces by broker id; `is_alive` says whether a broker has run ever since."""
        self._at = dict(at)
        self._is_alive = is_alive
        self._events: dict[int, list[Event]] = {broker_id: [] for broker_id in at}

    @property
    def events(self) -> list[Event]:
        """The events of all brokers so far, merged into one order."""
        for broker_id, trace in self._at.items():
            if broker_id not in self.lost:
                self._read(broker_id, trace)
        return joined(self._events.values())

    @property
    def dropped(self) -> int:
        return sum(trace.dropped for trace in self._at.values())

    def end(self) -> None:
        """Reads the remaining events and ends the trace at each broker that still runs."""
        _ = self.events
        for broker_id, trace in self._at.items():
            if broker_id not in self.lost:
                trace.end()

    def _read(self, broker_id: int, trace: BrokerTrace) -> None:
        """Reads the events of one broker.  A broker that has died is recorded as lost, and the
        events read from it before are kept."""
        if self._is_alive(broker_id):
            try:
                self._events[broker_id] = trace.events
                return
            except ControlError:
                if self._is_alive(broker_id):  # else it died during the request
                    raise
        self.lost |= {broker_id}


def joined(traces: Iterable[list[Event]]) -> list[Event]:
    """The events of several brokers in the order of their responses."""
    return sorted((event for events in traces for event in events), key=_response_order)


def _response_order(event: Event) -> tuple[float, int]:
    """The machine's monotonic time of the response (kwire.testing.hooks.tracing.traces) if the
    event has it, else the time by the broker's clock."""
    if "ended" in event:
        return event["ended"], event["broker"]
    return event["timeMs"] + event["durationMs"], event["broker"]
