"""The slowest requests of the last two minutes."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import Final, NamedTuple

from kwire.server.metrics.distribution import SLICES

KEPT_MAX: Final = 50
"""The slowest requests that each slice of the window keeps, and that are listed."""

WAITS_BY_DESIGN: Final = frozenset(
    {"FetchConsumer", "FetchFollower", "ShareFetch", "JoinGroup", "SyncGroup", "SaslHandshake"}
)
"""Requests that wait because their client asked for it: for records, for other members, or for its
own part of a login.  Their remote time does not make them slow."""


class SlowRequest(NamedTuple):
    """One request, with its times in ns."""

    at_ms: int
    """The wall clock when it was answered."""
    name: str
    """Kafka's name of the request, as in `RequestMeter`."""
    version: int
    client_id: str | None
    principal: str
    client_host: str
    connection_id: str
    request_bytes: int
    response_bytes: int
    queue: int
    local: int
    remote: int
    throttle: int
    total: int

    @property
    def blamed(self) -> int:
        """The ns by which requests are compared: the total without waits that the client wanted."""
        wanted = self.remote if self.name in WAITS_BY_DESIGN else 0
        return self.total - wanted - self.throttle


class SlowestRequests:
    """Keeps the slowest requests of each slice of the window.

    floor   a request below these ns cannot be one of the slowest, and need not be noted
    """

    __slots__ = ("_current", "_number", "_older", "floor")

    def __init__(self) -> None:
        self.floor = 0
        self._number = count()
        self._current: list[tuple[int, int, SlowRequest]] = []
        self._older: deque[list[tuple[int, int, SlowRequest]]] = deque(maxlen=SLICES - 1)

    def note(self, request: SlowRequest) -> None:
        """Keep the request if it is one of the slowest of this slice."""
        entry = (request.blamed, next(self._number), request)
        if len(self._current) < KEPT_MAX:
            heapq.heappush(self._current, entry)
        else:
            heapq.heappushpop(self._current, entry)
        if len(self._current) == KEPT_MAX:
            self.floor = self._current[0][0]

    def turn(self) -> None:
        """Begin a new slice; the oldest slice is dropped."""
        self._older.append(self._current)
        self._current, self.floor = [], 0

    def listed(self) -> list[SlowRequest]:
        """The slowest requests of the window, the slowest first; at most KEPT_MAX."""
        kept = [entry for entries in (self._current, *self._older) for entry in entries]
        return [request for _, _, request in heapq.nlargest(KEPT_MAX, kept)]
