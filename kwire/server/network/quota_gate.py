"""What holds a connection's client to its quotas: counted, told to rest, and not heard meanwhile.

As in Apache Kafka a client that is above a quota is answered at once, with the time it is to rest,
and its connection is not read before that is over (KIP-219).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

import trio

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import CloseConnection, Context
from kwire.requests.gate import PassingGate
from kwire.requests.routes import CLUSTER_ROUTES

if TYPE_CHECKING:
    from kwire.requests.gate import Gate
    from kwire.security.quotas.enforced import ClientQuotas
    from kwire.server.network.connection import Connection

_EXEMPT: Final = frozenset(int(route.api_key) for route in CLUSTER_ROUTES)
"""What brokers ask of each other is not held up."""


async def rest(connection: Connection, reply: Frame | None, throttle_ms: int, idle_ms: int) -> None:
    """Have the reply sent, and nothing read for a while: a connection waits for this.

    Who would rest for longer than who says nothing may stay (`idle_ms`, -1 is for ever) is closed
    as those are.
    """
    if reply is not None:
        await connection.reply(reply)
    await trio.sleep((throttle_ms if idle_ms < 0 else min(throttle_ms, idle_ms)) / 1000)
    if 0 <= idle_ms < throttle_ms:
        raise CloseConnection(f"it is to rest {throttle_ms} ms, connections.max.idle.ms is less")


class QuotaGate(PassingGate):
    """See the module, and `Gate`; `behind` is the gate behind it."""

    __slots__ = (
        "_connection",
        "_counts",
        "_quotas",
        "_size_bytes",
        "_spent_ns",
        "_start_ns",
    )

    def __init__(self, connection: Connection, quotas: ClientQuotas, behind: Gate | None) -> None:
        super().__init__(behind)
        self._connection = connection
        self._quotas = quotas
        self._counts = False
        self._size_bytes = 0
        self._start_ns = 0
        self._spent_ns = 0

    def admit(self, context: Context, frame: memoryview) -> Awaitable[Frame | None] | None:
        produces = context.api_key == ApiKey.PRODUCE
        self._counts = context.api_key not in _EXEMPT and self._quotas.concern(
            context.user, context.client_id or "", produces=produces
        )
        if self._counts:
            self._connection.forget()
            self._size_bytes = len(frame)
            self._start_ns = time.perf_counter_ns()
            self._spent_ns = 0
        return super().admit(context, frame)

    def parked(self, context: Context) -> None:
        if self._counts:
            self._spent_ns = time.perf_counter_ns() - self._start_ns
        super().parked(context)

    def throttle_ms(self, context: Context, response: Message | None) -> int:
        """A handler may have said so already, in the response: the longest counts."""
        asked: int = getattr(response, "throttle_time_ms", 0)
        if self._counts:
            asked = max(asked, self._counted(context, answered=response is not None))
        if asked and response is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = asked
        return max(asked, super().throttle_ms(context, response))

    def _counted(self, context: Context, *, answered: bool) -> int:
        """Produce without an answer counts by its bytes alone, as in Kafka."""
        quotas, user, client_id = self._quotas, context.user, context.client_id or ""
        throttle_ms = 0
        if context.api_key == ApiKey.PRODUCE:
            throttle_ms = quotas.produced(user, client_id, self._size_bytes)
        if answered:
            spent_ns = self._spent_ns or time.perf_counter_ns() - self._start_ns
            throttle_ms = max(throttle_ms, quotas.requested(user, client_id, spent_ns))
        return throttle_ms
