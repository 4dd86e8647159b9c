"""Requests between brokers and to the controller, which wait until somebody moves them on.

What a real network may do with a request is done here, too:

    late        nothing arrives by itself; a reply that was sent arrives even if its sender has died
    reordered   calls of several connections arrive in any order
    lost        the caller is told that the connection is lost, before or after it was answered
    doubled     a request whose connection is lost may still be read by the other side, after the
                caller has asked again
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from kwire.cluster.peers.error import PeerError
from kwire.codecs.messages import request_class, response_class
from kwire.codecs.primitives import Message

UNREAD_MAX = 8

Handler = Callable[[Message, int], Awaitable[Message | None]]
"""Gives None where nobody is there who could answer."""


def on_the_wire(message: Any, version: int, *, is_reply_to: int | None = None) -> Any:  # noqa: ANN401 - any
    """What the other side makes of it."""
    if is_reply_to is None:
        data = bytearray(message.encode(version))
        return request_class(message.API_KEY).decode(memoryview(data), version)
    data = bytearray(message.encode(version))
    return response_class(is_reply_to).decode(memoryview(data), version)


@dataclass(eq=False)
class Call:
    """A request on its way there, or its reply on its way back."""

    source: int
    target: int
    request: Message
    version: int
    reply: Message | None = None
    is_there: bool = False
    """Whether it is with the one who is to answer."""
    failed: bool = False
    sent_s: float = field(default_factory=trio.current_time)
    """When it was sent, on trio's clock."""
    done: trio.Event = field(default_factory=trio.Event)

    def fail(self) -> None:
        self.failed = True
        self.done.set()


class Network:
    """Who is reached from where, and what is under way."""

    def __init__(self) -> None:
        self.handlers: dict[int, tuple[Handler, trio.Nursery]] = {}
        """Of those who live."""
        self.cut: set[tuple[int, int]] = set()
        self.calls: list[Call] = []
        self.unread: list[tuple[Call, trio.Nursery]] = []
        """Requests of lost connections that the other side has not read; its process still runs."""

    async def call(self, source: int, target: int, request: Message, version: int) -> Any:  # noqa: ANN401 - any
        """Raise PeerError."""
        if target not in self.handlers or (source, target) in self.cut:
            raise PeerError(f"broker {target}", "it cannot be reached")
        call = Call(source, target, request, version)
        self.calls.append(call)
        try:
            await call.done.wait()
        finally:
            if call in self.calls:
                self.calls.remove(call)
        if call.failed or call.reply is None:
            raise PeerError(f"broker {target}", "the connection is lost")
        assert request.API_KEY is not None
        return on_the_wire(call.reply, version, is_reply_to=request.API_KEY)

    @property
    def movable(self) -> list[Call]:
        """What can arrive now."""
        return [each for each in self.calls if not each.is_there and not each.done.is_set()]

    def arrive(self, call: Call) -> None:
        """The request gets there, or the reply gets back; where the way is cut, neither does."""
        if (call.source, call.target) in self.cut:
            call.fail()
        elif call.reply is not None:
            call.done.set()
        elif call.target not in self.handlers:
            call.fail()
        else:
            call.is_there = True
            handler, nursery = self.handlers[call.target]
            nursery.start_soon(self._answer, call, handler)

    async def _answer(self, call: Call, handler: Handler) -> None:
        reply = await handler(on_the_wire(call.request, call.version), call.version)
        if reply is None:
            call.fail()
        call.reply, call.is_there = reply, False

    def lose(self, call: Call) -> None:
        """The connection is lost; a request that was sent may be read all the same."""
        if call.reply is None and call.target in self.handlers:
            self.unread.append((call, self.handlers[call.target][1]))
            del self.unread[:-UNREAD_MAX]
        call.fail()

    def read_late(self, number: int) -> bool:
        """A request of a lost connection is read after all; nobody hears the answer."""
        while self.unread:
            call, process = self.unread.pop(number % len(self.unread))
            handler, nursery = self.handlers.get(call.target, (None, None))
            if handler is not None and nursery is process:
                process.start_soon(self._answer, call, handler)
                return True
        return False

    def gone(self, broker_id: int) -> None:
        """A broker ended: who asked it is told so, and nobody waits for what it asked.

        A reply that it has sent is still under way.
        """
        self.handlers.pop(broker_id, None)
        for call in list(self.calls):
            if call.target == broker_id:
                if call.reply is None:
                    call.fail()
            elif call.source == broker_id:
                self.calls.remove(call)
