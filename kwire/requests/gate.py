"""What every request passes, whichever way it is answered: by a handler or by a shortcut.

Who asks, may they, are they throttled, are they counted: whoever has to know of each request is a
Gate, and `Broker.gate` is the one place where it is put.  Without one, which is how a broker
starts, a request costs one comparison here, and shortcuts (kwire.requests.shortcuts) are looked at
before anything else; with one they are asked behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import Context


class Gate(Protocol):
    """See the module; each is called on the loop, at most once for a request, and may not wait."""

    def admit(self, context: Context, frame: memoryview) -> Awaitable[Frame | None] | None:
        """A request has come in whole; `context` says whose it is, and which.

        None lets it pass; a gate that takes it over gives back what its reply is waited for by.
        Raises CloseConnection where it may not even be answered.
        """

    def parked(self, context: Context) -> None:
        """It must wait; others have their turn meanwhile."""

    def throttle_ms(self, context: Context, response: Message | None) -> int:
        """How long its client is not to be heard, once it has this response; 0 for not at all.

        It is written behind this: what the client is told of it may be put in.  None is told
        nothing (acks=0).
        """

    def answered(self, context: Context, size_bytes: int) -> None:
        """Its reply of `size_bytes` is ready, 0 where there is none (acks=0)."""


class PassingGate:
    """One that leaves all to the gate behind it, if there is one; others override what they do."""

    __slots__ = ("_behind",)

    def __init__(self, behind: Gate | None) -> None:
        self._behind = behind

    def admit(self, context: Context, frame: memoryview) -> Awaitable[Frame | None] | None:
        return None if self._behind is None else self._behind.admit(context, frame)

    def parked(self, context: Context) -> None:
        if self._behind is not None:
            self._behind.parked(context)

    def throttle_ms(self, context: Context, response: Message | None) -> int:
        return 0 if self._behind is None else self._behind.throttle_ms(context, response)

    def answered(self, context: Context, size_bytes: int) -> None:
        if self._behind is not None:
            self._behind.answered(context, size_bytes)
