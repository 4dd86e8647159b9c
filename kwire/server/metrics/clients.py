"""The load that clients put on the broker in the last two minutes."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from kwire.server.metrics.distribution import SLICES

LISTED_MAX: Final = 100
"""The busiest clients that are listed."""

KEPT_MAX: Final = 1000
"""The clients that one slice of the window counts; the load of further ones counts as OTHERS."""


class ClientKey(NamedTuple):
    """One client: its id, who it is, and where it is."""

    client_id: str
    principal: str
    client_host: str


OTHERS: Final = ClientKey("(others)", "", "")


@dataclass(slots=True)
class ClientLoad:
    """What one client has had the broker do."""

    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy_ns: int = 0
    """The time that the broker worked for it (`local` of RequestMeter), estimated where a shortcut
    answers."""
    throttle_ns: int = 0

    def add(self, other: ClientLoad) -> None:
        self.requests += other.requests
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.busy_ns += other.busy_ns
        self.throttle_ns += other.throttle_ns


class BusyClients:
    """The loads of all clients that were busy in the window."""

    __slots__ = ("_current", "_older")

    def __init__(self) -> None:
        self._current: dict[ClientKey, ClientLoad] = {}
        self._older: deque[dict[ClientKey, ClientLoad]] = deque(maxlen=SLICES - 1)

    def add(self, key: ClientKey, load: ClientLoad) -> None:
        """Add `load` to the client's load in this slice."""
        known = self._current.get(key)
        if known is None:
            if len(self._current) >= KEPT_MAX:
                key = OTHERS
            known = self._current.setdefault(key, ClientLoad())
        known.add(load)

    def turn(self) -> None:
        """Begin a new slice; the oldest slice is dropped."""
        self._older.append(self._current)
        self._current = {}

    def busiest(self, count: int = LISTED_MAX) -> list[tuple[ClientKey, ClientLoad]]:
        """The clients for which the broker worked longest in the window, the busiest first."""
        loads: dict[ClientKey, ClientLoad] = {}
        for current in (self._current, *self._older):
            for key, load in current.items():
                loads.setdefault(key, ClientLoad()).add(load)
        return heapq.nlargest(
            min(count, LISTED_MAX), loads.items(), key=lambda each: each[1].busy_ns
        )
