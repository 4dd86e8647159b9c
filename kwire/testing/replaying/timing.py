"""When requests are sent, and what time it is at the broker meanwhile.

Two members that join a group together do so before a timer of the broker ends the joining; an
assignment is computed no more than once a second.  So what is answered depends on what passes
between two requests, also on a machine that is slower today.  Where the broker's clock can be had
it stands still: between two requests that were not under way together it goes on by what had
passed between them, and while an answer is waited for it goes on until that is there.

Of several brokers all clocks do so together.  They also wait for each other, and not only for
timers: so while an answer is waited for they go no faster than the world's, and a long time passes
in pieces, between which each hears of the others.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.client.connection import Connection
from kwire.codecs.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from kwire.testing.clock import Clock

SETTLED_S: Final = (0.0005, 0.01)
"""At least and at most.  A broker on the same machine takes a request in within half a ms, on a
busy one within ten."""
LAG_MS: Final = 10
"""The least by which a clock is gone ahead: each time is a request of its own."""
PATIENCE_S: Final = 0.05
"""What a broker answers without waiting for its clock is there by then, on most machines."""
TOGETHER_MS: Final = 2_000
"""How far the clock of one broker goes before the others': much less than followers may lag
(replica.lag.time.max.ms), or requests between brokers take."""


class WorldsTime:
    """The broker's time is nobody's to change."""

    def __init__(self, first_ms: int) -> None:
        self._last_ms = first_ms

    def before_sending(self, time_ms: int, others: list[Connection]) -> None:
        """Wait until a request may be sent that had come then.

        Where others are under way it comes as long after the one before as in the trace, but no
        sooner than that is read and no later than `SETTLED_S` says: so they arrive in their order.
        """
        if others:
            least_s, most_s = SETTLED_S
            after_s = (time_ms - self._last_ms) / 1000
            select.select(others, [], [], min(max(after_s, least_s), most_s))
        self._last_ms = time_ms

    def before_reading(self, time_ms: int, connection: Connection, within_s: float) -> None:
        """Have the time come in which an answer was given.  It is read with a deadline anyway."""

    def wait(self, for_s: float) -> None:
        """Have so much time pass."""
        time.sleep(for_s)


class Held(NamedTuple):
    """A broker whose clock stands still."""

    clock: Clock
    probe: Connection
    """To the broker; nothing of the trace is sent there."""


class HeldTime(WorldsTime):
    """The brokers' clocks stand still, but for what they are gone ahead by here.

    A broker of kwire reads what has come to all connections before it looks for more: who has asked
    it something since, and was answered, knows that what was sent before is read.
    """

    def __init__(self, first_ms: int, brokers: list[Held]) -> None:
        super().__init__(first_ms)
        self._brokers = brokers
        self._now_ms = first_ms

    def before_sending(self, time_ms: int, others: list[Connection]) -> None:
        if others:
            self._have_all_read()
        else:
            self._go_on_to(time_ms)

    def before_reading(self, time_ms: int, connection: Connection, within_s: float) -> None:
        self._have_all_read()
        deadline_ms, step_ms = self._now_ms + round(within_s * 1000), LAG_MS
        if len(self._brokers) > 1:
            step_ms = round(PATIENCE_S * 1000)
        while not _is_there(connection) and self._now_ms < deadline_ms:
            self._go_on_to(max(time_ms, self._now_ms + step_ms))
            if len(self._brokers) == 1:
                step_ms *= 2

    def wait(self, for_s: float) -> None:
        super().wait(for_s)
        self._go_on_to(self._now_ms + round(for_s * 1000))

    def _have_all_read(self) -> None:
        for broker in self._brokers:
            broker.probe.call(ApiVersionsRequest("", ""), version_max=0)

    def _go_on_to(self, time_ms: int) -> None:
        while (by_ms := time_ms - self._now_ms) >= LAG_MS:
            if len(self._brokers) > 1:
                by_ms = min(by_ms, TOGETHER_MS)
            for broker in self._brokers:
                broker.clock.advance(seconds=by_ms / 1000)
            self._now_ms += by_ms


def _is_there(connection: Connection) -> bool:
    """Whether an answer, or the connection's end, can be read."""
    return connection.closed or bool(select.select([connection], [], [], PATIENCE_S)[0])
