"""OwedReplies: replies to Produce requests that wait for replicas, in the order of the requests.

Such a request is carried out when its batch is appended (kwire.requests.uncommitted).  To let the
connection's task wait for each costs several task switches, and every request behind it one more
exchange with the followers: a fetch of a follower carries the batches of all requests that came
before it.  So the connection goes on with further Produce requests, and the last follower's
progress sends their replies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from kwire.codecs.primitives import Frame
from kwire.server.network.replies import encode_reply

if TYPE_CHECKING:
    from kwire.broker.timers import Timer, Timers
    from kwire.requests.routes import Binding
    from kwire.requests.uncommitted import UncommittedResponse
    from kwire.server.network.outbox import Outbox

OWED_MAX: Final = 64
"""The most replies that one connection is owed; it handles no further requests before.  Java's
producer has 5 requests in flight, librdkafka's as many as it wants."""


class _Owed:
    """One reply: how to encode it, and when it times out."""

    __slots__ = ("binding", "correlation_id", "deadline_ms", "uncommitted")

    def __init__(
        self,
        binding: Binding,
        correlation_id: int,
        uncommitted: UncommittedResponse,
        deadline_ms: float,
    ) -> None:
        self.binding = binding
        self.correlation_id = correlation_id
        self.uncommitted = uncommitted
        self.deadline_ms = deadline_ms


class OwedReplies:
    """See the module; true if any reply is owed."""

    __slots__ = ("_changed", "_entries", "_send", "_timer", "_timers")

    def __init__(self, timers: Timers, send: Callable[[], object]) -> None:
        """`send` has the connection call `move_to` soon, as the first replies may be complete."""
        self._entries: deque[_Owed | Frame] = deque()
        self._send = send
        self._timers = timers
        self._timer: Timer | None = None
        self._changed: trio.Event | None = None

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def is_full(self) -> bool:
        return len(self._entries) >= OWED_MAX

    def owe(self, binding: Binding, correlation_id: int, uncommitted: UncommittedResponse) -> None:
        """Owe the reply to a request until its response is complete."""
        deadline_ms = self._timers.now_ms() + max(uncommitted.timeout_ms, 0)
        self._entries.append(_Owed(binding, correlation_id, uncommitted, deadline_ms))
        uncommitted.on_complete = self._complete
        if self._timer is None:
            self._timer = self._timers.at(deadline_ms, self._expire)
        elif deadline_ms < self._timer.when_ms:
            self._timer.move(deadline_ms)

    def put(self, reply: Frame) -> None:
        """Owe a reply that is ready, behind others that are not."""
        self._entries.append(reply)

    def move_to(self, outbox: Outbox) -> None:
        """Put the replies whose turn has come into the outbox."""
        entries = self._entries
        while entries:
            first = entries[0]
            if isinstance(first, Frame):
                outbox.put(first)
            elif first.uncommitted.is_complete:
                response = first.uncommitted.response
                outbox.put(encode_reply(first.binding, first.correlation_id, response))
            else:
                return
            entries.popleft()
        if self._timer is not None:
            self._timer.cancel()

    async def settle(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Return once no reply is owed; `flush` sends those that are complete."""
        while self:
            self._changed = trio.Event()
            await self._changed.wait()
            await flush()

    def drop(self) -> None:
        """Nobody gets the replies any more: the connection is closed."""
        for entry in self._entries:
            if not isinstance(entry, Frame):
                entry.uncommitted.drop()
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _complete(self) -> None:
        if self._changed is not None:
            self._changed.set()
        self._send()

    def _expire(self) -> None:
        """Give up the responses whose time is up, and wait for the next deadline."""
        now_ms, next_ms = self._timers.now_ms(), inf
        for entry in self._entries:
            if isinstance(entry, Frame) or entry.uncommitted.is_complete:
                continue
            if entry.deadline_ms <= now_ms:
                entry.uncommitted.give_up()
            else:
                next_ms = min(next_ms, entry.deadline_ms)
        assert self._timer is not None
        if next_ms < inf:
            self._timer.move(next_ms)
        self._complete()
