"""When requests are sent, and what the brokers' clocks show meanwhile.

Responses depend on the broker's timers: two members join a group together only if the second one
comes before a timer ends the rebalance, and an assignment is computed at most once a second.  On a
slower machine, the same requests would meet other timers.  So if the broker's clock can be
controlled, it is held.  Before a request that was sent while no other was in flight, the clock
advances by the time that passed in the trace.  While a response is awaited, the clock advances
until the response arrives.

A broker may also decide by how much time has passed since another request.  In the trace it read
its clock some ms after the request had come, in the replay it reads it at once: if the time that
had passed was within a few ms of the limit, the response may differ.

The clocks of several brokers advance together.  The brokers also wait for each other's requests,
which take real time: so while a response is awaited, the clocks advance no faster than the real
time, and a long time passes in several steps, between which the brokers hear from each other.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.client.connection import BrokerConnection
from kwire.codecs.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from kwire.testing.clock import Clock

SETTLED_S: Final = (0.0005, 0.01)
"""Minimum and maximum time after which the broker has read a request.  A broker on the same machine
reads it within half a ms, on a busy machine within ten."""
STEP_MS: Final = 10
"""By how much the clock of a single broker advances first while a response is awaited."""
PATIENCE_S: Final = 0.05
"""Within this time, most machines deliver a response that does not wait for the broker's clock."""
TOGETHER_MS: Final = 2_000
"""How many ms one broker's clock may be ahead of the others' during an advance.  It is much less
than replica.lag.time.max.ms, and than the timeouts of requests between brokers."""


class RealTime:
    """The broker's clock is not controlled; requests are only spaced so that they stay in order."""

    def __init__(self, first_ms: int) -> None:
        self._last_ms = first_ms

    def before_sending(self, time_ms: int, others: list[BrokerConnection]) -> None:
        """Wait until the request that came at `time_ms` may be sent.

        If other requests are in flight, it waits for the recorded time since the request before it,
        but at least and at most for `SETTLED_S`, so that the requests arrive in their order.
        """
        if others:
            least_s, most_s = SETTLED_S
            after_s = (time_ms - self._last_ms) / 1000
            _await_readable(others, min(max(after_s, least_s), most_s))
        self._last_ms = time_ms

    def before_reading(self, time_ms: int, connection: BrokerConnection, within_s: float) -> None:
        """Does nothing, since this class does not control the broker's clock; see HeldTime."""

    def wait(self, for_s: float) -> None:
        """Waits `for_s` seconds, in which the brokers' time passes, too."""
        time.sleep(for_s)


class HeldBroker(NamedTuple):
    """A broker whose clock is held."""

    clock: Clock
    probe: BrokerConnection
    """A connection to the broker that carries no requests of the trace."""


class HeldTime(RealTime):
    """The brokers' clocks are held, and advance only here.

    A kwire broker reads what has arrived on all connections before it polls for more.  So once a
    broker has answered a request on the probe, it has read everything that was sent before.
    """

    def __init__(self, first_ms: int, brokers: list[HeldBroker]) -> None:
        super().__init__(first_ms)
        self._brokers = brokers
        self._now_ms = first_ms

    def before_sending(self, time_ms: int, others: list[BrokerConnection]) -> None:
        """Advances the clocks to `time_ms`, the recorded time of a request.  While responses on
        `others` are awaited, the clocks stay, and it only waits until the brokers have read the
        requests."""
        if others:
            self._await_all_read()
        else:
            self._advance_to(time_ms)

    def before_reading(self, time_ms: int, connection: BrokerConnection, within_s: float) -> None:
        """Advances the brokers' clocks until a response can be read from `connection`, first to
        `time_ms`, the recorded time of the response.  Gives up after `within_s` seconds of the
        brokers' time."""
        self._await_all_read()
        deadline_ms, step_ms = self._now_ms + round(within_s * 1000), STEP_MS
        if len(self._brokers) > 1:
            step_ms = round(PATIENCE_S * 1000)
        while not _is_readable(connection) and self._now_ms < deadline_ms:
            self._advance_to(max(time_ms, self._now_ms + step_ms))
            if len(self._brokers) == 1:
                step_ms *= 2

    def wait(self, for_s: float) -> None:
        super().wait(for_s)
        self._advance_to(self._now_ms + round(for_s * 1000))

    def _await_all_read(self) -> None:
        """Return once all brokers have read everything that was sent to them."""
        for broker in self._brokers:
            broker.probe.call(ApiVersionsRequest("", ""), version_max=0)

    def _advance_to(self, time_ms: int) -> None:
        """Advances the clocks of all brokers to `time_ms` in turn."""
        while (by_ms := time_ms - self._now_ms) > 0:
            if len(self._brokers) > 1:
                # Clocks advance one after another; a large step would let leaders see their
                # followers lag.
                by_ms = min(by_ms, TOGETHER_MS)
            for broker in self._brokers:
                broker.clock.advance(seconds=by_ms / 1000)
            self._now_ms += by_ms


def _is_readable(connection: BrokerConnection) -> bool:
    """Whether a response, or the end of the connection, can be read within `PATIENCE_S`."""
    return connection.closed or _await_readable([connection], PATIENCE_S)


def _await_readable(connections: Sequence[BrokerConnection], timeout_s: float) -> bool:
    """Wait until one of them can be read; False if none can within `timeout_s`.

    A process of many connections has descriptors above 1,023, which `select.select` refuses.
    """
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
