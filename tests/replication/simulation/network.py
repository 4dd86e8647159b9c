"""Requests between brokers, each under way until somebody says what becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from kwire.codecs.messages import request_class, response_class
from kwire.codecs.primitives import Message
from kwire.peers.error import PeerError

Handler = Callable[[Message, int], Awaitable[Message]]


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

    async def call(self, source: int, target: int, request: Message, version: int) -> Any:  # noqa: ANN401 - any
        """Raises PeerError."""
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
        if (call.source, call.target) in self.cut or call.target not in self.handlers:
            call.fail()
        elif call.reply is not None:
            call.done.set()
        else:
            call.is_there = True
            handler, nursery = self.handlers[call.target]
            nursery.start_soon(self._answer, call, handler)

    async def _answer(self, call: Call, handler: Handler) -> None:
        reply = await handler(on_the_wire(call.request, call.version), call.version)
        call.reply, call.is_there = reply, False

    def gone(self, broker_id: int) -> None:
        """A broker ended: who asked it is told so, and nobody waits for what it asked."""
        self.handlers.pop(broker_id, None)
        for call in list(self.calls):
            if call.target == broker_id:
                call.fail()
            elif call.source == broker_id:
                self.calls.remove(call)
