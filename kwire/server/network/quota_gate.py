"""The gate that enforces client quotas on one connection.

As in Apache Kafka, a client above a quota gets its response at once, with a throttle time, and the
broker does not read from its connection before that time is over (KIP-219).
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
"""The requests between brokers: no quota counts them."""


async def rest(connection: Connection, reply: Frame | None, throttle_ms: int, idle_ms: int) -> None:
    """Send the reply and wait for the throttle time; the connection reads nothing meanwhile.

    `idle_ms` is `connections.max.idle.ms`, -1 for no limit.  Raises CloseConnection if the throttle
    time is longer: the connection is then closed after `idle_ms`, as an idle one is.
    """
    if reply is not None:
        await connection.reply(reply)
    await trio.sleep((throttle_ms if idle_ms < 0 else min(throttle_ms, idle_ms)) / 1000)
    if 0 <= idle_ms < throttle_ms:
        raise CloseConnection(
            f"its throttle time of {throttle_ms} ms is above connections.max.idle.ms"
        )


class QuotaGate(PassingGate):
    """Counts the requests of one connection against its client's quotas; see `Gate`."""

    __slots__ = (
        "_connection",
        "_counts",
        "_quotas",
        "_size_bytes",
        "_spent_ns",
        "_start_ns",
    )

    def __init__(self, connection: Connection, quotas: ClientQuotas, behind: Gate | None) -> None:
        """Count the requests of a connection; `behind` is the next gate or None."""
        super().__init__(behind)
        self._connection = connection
        self._quotas = quotas
        self._counts = False
        self._size_bytes = 0
        self._start_ns = 0
        self._spent_ns = 0

    def admit(self, context: Context, frame: memoryview) -> Awaitable[Frame | None] | None:
        """Begin to measure the request if a quota concerns its client, and pass it on.

        Requests between brokers are exempt.
        """
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
        """Return the longest of the throttle times of the handler, the quotas and the next gate."""
        throttle_ms: int = getattr(response, "throttle_time_ms", 0)
        if self._counts:
            throttle_ms = max(throttle_ms, self._counted(context, answered=response is not None))
        if throttle_ms and response is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        return max(throttle_ms, super().throttle_ms(context, response))

    def _counted(self, context: Context, *, answered: bool) -> int:
        """Count the request against the quotas; returns the throttle time in ms.

        Produce with acks=0 counts by its bytes only, as in Apache Kafka.
        """
        quotas, user, client_id = self._quotas, context.user, context.client_id or ""
        throttle_ms = 0
        if context.api_key == ApiKey.PRODUCE:
            throttle_ms = quotas.produced(user, client_id, self._size_bytes)
        if answered:
            spent_ns = self._spent_ns or time.perf_counter_ns() - self._start_ns
            throttle_ms = max(throttle_ms, quotas.requested(user, client_id, spent_ns))
        return throttle_ms
