"""Gates: code that sees every request, whether a handler or a shortcut answers it.

Authentication, quotas and metrics of requests are gates.  `Broker.gate` is the first of a chain;
it is None on a broker without any, where a request then costs one comparison.  Shortcuts
(kwire.requests.shortcuts) come after the gate.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import Context


class Gate(Protocol):
    """Called for each request on the event loop, each method at most once; must not wait."""

    def admit(self, context: Context, frame: memoryview) -> Awaitable[Frame | None] | None:
        """Called when a whole request has arrived; `context` has its sender and header.

        Returns None to let the request pass.  A gate that answers the request itself returns an
        awaitable of the response.  Raises CloseConnection if there must be no answer.
        """

    def parked(self, context: Context) -> None:
        """Called when the request has to wait, and other requests run in the meantime."""

    def throttle_ms(self, context: Context, response: Message | None) -> int:
        """Return for how many ms the broker reads nothing from the client after this response.

        It is called before the response is written, so that the gate can set its throttle time
        field. `response` is None if none is sent (acks=0).
        """

    def answered(self, context: Context, size_bytes: int) -> None:
        """Called when the response is ready; `size_bytes` is 0 if none is sent (acks=0)."""


class PassingGate:
    """Base class of gates: forwards each call to the next gate, if there is one."""

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
