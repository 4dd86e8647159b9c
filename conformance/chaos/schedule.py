"""Injects faults at their times, several at a time, and ends each of them after its duration."""

from __future__ import annotations

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeAlias, TypeVar

from kwire.conformance.chaos.history import NEMESIS, Event, Recorder, Type

Undo: TypeAlias = Callable[[], None]
POLL_S = 0.02


class TimedFault(Protocol):
    """A fault from `at_s` after the load begins, for `duration_s`; its text is for people."""

    @property
    def kind(self) -> str: ...
    @property
    def at_s(self) -> float: ...
    @property
    def duration_s(self) -> float: ...


Fault = TypeVar("Fault", bound=TimedFault)


class FaultSchedule(ABC, Generic[Fault]):
    """Begins and ends faults, and records both in the history."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._busy: set[str] = set()
        """Names of processes that are down or paused."""
        self._pending: list[tuple[float, int, Undo]] = []
        self._order = itertools.count()

    @abstractmethod
    def _inject(self, fault: Fault) -> Undo | None:
        """Begin a fault and return how to end it, or None if it is not possible now."""

    def _extra_s(self, fault: Fault) -> float:
        """How much longer than its duration this fault takes, in seconds."""
        return 0.0

    def inject_all(self, faults: Iterable[Fault]) -> None:
        """Inject each fault at its time, and wait for the end of the last one."""
        start = time.monotonic()
        for fault in faults:
            self._run_until(start + fault.at_s)
            self._begin(fault)
        self._run_until(None)

    def end_all(self) -> None:
        """End all faults at once."""
        while self._pending:
            heapq.heappop(self._pending)[2]()

    def _run_until(self, moment: float | None) -> None:
        """End the faults that are due until `moment`; None: all faults."""
        while self._pending and (moment is None or self._pending[0][0] <= moment):
            due, _, undo = heapq.heappop(self._pending)
            self._sleep_until(due)
            undo()
        if moment is not None:
            self._sleep_until(moment)

    def _sleep_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))

    def _begin(self, fault: Fault) -> None:
        """Begin a fault and schedule its end; a fault that is not possible now is recorded as
        skipped."""
        begun = self._recorder.invoke(NEMESIS, "fault", kind=fault.kind, what=str(fault))
        undo = self._inject(fault)
        if undo is None:
            self._recorder.end(begun, Type.OK, skipped=True)
            return
        due = time.monotonic() + fault.duration_s + self._extra_s(fault)
        heapq.heappush(self._pending, (due, next(self._order), self._record_undo(undo, begun)))

    def _record_undo(self, undo: Undo, begun: Event) -> Undo:
        """Return `undo` with the end of the fault recorded after it."""

        def end() -> None:
            undo()
            self._recorder.end(begun, Type.OK)

        return end

    def _reserve(self, *names: str) -> bool:
        """Mark these processes as busy; returns False if one of them already has a fault."""
        if self._busy.intersection(names):
            return False
        self._busy.update(names)
        return True

    def _release(self, *names: str) -> None:
        self._busy.difference_update(names)
