"""What several brokers were asked, in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kwire.testing.control import ControlError
from kwire.testing.traces import BrokerTrace, Event, Trace


class JoinedTrace(Trace):
    """A trace at each of several brokers, as if it were one.

    What a broker has seen that dies goes with it, but for what was looked at before; it is seen no
    more, also where it runs again.
    """

    def __init__(self, at: Mapping[int, BrokerTrace], lives: Callable[[int], bool]) -> None:
        """The traces by the brokers' ids; `lives` says whether a broker has not died since."""
        self._at = dict(at)
        self._lives = lives
        self._seen: dict[int, list[Event]] = {each: [] for each in at}

    @property
    def events(self) -> list[Event]:
        for broker_id, trace in self._at.items():
            if broker_id not in self.lost:
                self._look(broker_id, trace)
        return joined(self._seen.values())

    @property
    def dropped(self) -> int:
        return sum(trace.dropped for trace in self._at.values())

    def end(self) -> None:
        _ = self.events
        for broker_id, trace in self._at.items():
            if broker_id not in self.lost:
                trace.end()

    def _look(self, broker_id: int, trace: BrokerTrace) -> None:
        if self._lives(broker_id):
            try:
                self._seen[broker_id] = trace.events
                return
            except ControlError:
                if self._lives(broker_id):
                    raise
        self.lost |= {broker_id}


def joined(seen: Iterable[list[Event]]) -> list[Event]:
    """The events of several brokers in the order of their answers."""
    return sorted((event for events in seen for event in events), key=_answered)


def _answered(event: Event) -> tuple[float, int]:
    """By the order of all where it was kept (kwire.testing.hooks.tracing.traces), else by the
    clocks."""
    if "ended" in event:
        return event["ended"], event["broker"]
    return event["timeMs"] + event["durationMs"], event["broker"]
