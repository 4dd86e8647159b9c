"""A connection of a broker in a test's hands: each request is looked at, and may be befallen.

It exists where `kwire serve --control` was asked for; the plain connection
(kwire.server.network.connection) knows nothing of it.  Requests go the thorough way here, never by
a shortcut: what is said again in the same bytes may be befallen by another rule.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import CloseConnection
from kwire.server.network.connection import Connection, Outcome
from kwire.server.network.quota_gate import rest
from kwire.server.network.spoiling import fetch_parts, refusing
from kwire.server.network.tls_connection import TlsConnection
from kwire.server.network.watching import Watched, watch
from kwire.testing.hooks.faults.machine import RequestInfo
from kwire.testing.hooks.faults.rules import Ending

if TYPE_CHECKING:
    from kwire.requests.routes import Binding, Handled
    from kwire.requests.shortcuts.shortcut import Exchange
    from kwire.testing.hooks.control.service import Control
    from kwire.testing.hooks.faults.machine import FaultDecision
    from kwire.testing.hooks.tracing.traces import TracedRequest

log = logging.getLogger("kwire.network.controlled")


class _Controlled(Connection):
    """What both kinds of connections share; they differ in what is below."""

    __slots__ = ()

    control: Control

    def _answer_repeated(self) -> bytes | bytearray | None:
        return None

    def _learn(self, api_key: int, exchange: Exchange[Any, Any]) -> None:
        """Nothing: see the module."""

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Outcome:
        faults, traces = self.control.faults, self.control.traces
        if self.control.versions:
            binding = self.control.versions.bound(binding)
        if not (faults or traces):
            return super()._handle(binding, correlation_id, request, frame)
        asked = self._asked(binding, request)
        seen = traces.see(
            asked, self._broker.node_id, self.context.connection_id, correlation_id, frame
        )
        decision = faults.decide(asked)
        if decision is None:
            watched = binding if seen is None else Watched.over(binding, seen)
            return super()._handle(watched, correlation_id, request, frame)
        log.info(
            "fault %d befalls API key %d of %s (client id %r)",
            decision.number,
            binding.api_key,
            self.context.connection_id,
            self.context.client_id,
        )
        handle = partial(super()._handle, correlation_id=correlation_id, frame=frame)
        befallen = self._befall(decision, binding, request, handle, seen)
        return befallen if seen is None else _told(seen, decision, befallen)

    def _handled(self, binding: Binding, request: Message) -> Handled:
        serve = partial(super()._handled, binding, request)
        return watch(binding.seen, serve) if isinstance(binding, Watched) else serve()

    def _asked(self, binding: Binding, request: Message) -> RequestInfo:
        return RequestInfo(
            binding.api_key,
            binding.api_version,
            self.context.client_id,
            request,
            self._broker.metadata.topic_name,
            partial(fetch_parts, self._broker, request),
        )

    async def _befall(
        self,
        decision: FaultDecision,
        binding: Binding,
        request: Message,
        handle: partial[Outcome],
        seen: TracedRequest | None,
    ) -> Frame | None:
        action = decision.action
        if seen is not None:
            seen.befallen = True
        if not action.carried_out:
            await trio.sleep(action.delay_ms / 1000)
            if action.ending is not None:
                return await self._end_by(decision, None)
        spoiled = self._spoiled(decision, binding)
        if seen is not None:
            spoiled = Watched.over(spoiled, seen)
        reply = handle(binding=spoiled, request=request)
        if isinstance(reply, Awaitable):
            reply = await reply
        if action.carried_out:
            await trio.sleep(action.delay_ms / 1000)
            if action.ending is not None:
                return await self._end_by(decision, reply)
        if action.throttle_ms:
            idle_ms = self._broker.config.connections_max_idle_ms
            await rest(self, reply, action.throttle_ms, idle_ms)
            return None
        return reply

    def _spoiled(self, decision: FaultDecision, binding: Binding) -> Binding:
        """As `binding`, with the errors and the throttle time that were asked for."""
        action, serve = decision.action, binding.handle
        if action.error is not None:
            serve = refusing(decision.rule, action, binding, serve)
        if action.throttle_ms:
            serve = partial(_throttled, serve, action.throttle_ms)
        return binding if serve is binding.handle else replace(binding, handle=serve)

    async def _end_by(self, decision: FaultDecision, reply: Frame | None) -> Frame | None:
        """What there is instead of an answer."""
        action = decision.action
        if action.ending is Ending.DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        if action.ending is Ending.SILENCE:
            await trio.sleep_forever()
        if action.ending is Ending.TRUNCATE and reply is not None:
            cut = Frame()
            cut += reply.tobytes()[: action.reply_bytes]
            await self.reply(cut)
        raise CloseConnection(f"fault {decision.number}")


class ControlledConnection(_Controlled):
    """See the module; `control` is set before it runs."""

    __slots__ = ("control",)


class ControlledTlsConnection(_Controlled, TlsConnection):
    """The same, inside TLS."""

    __slots__ = ("control",)


async def _told(
    seen: TracedRequest, decision: FaultDecision, befallen: Coroutine[Any, Any, Frame | None]
) -> Frame | None:
    """What becomes of a request that is befallen, and of the trace's event of it."""
    ending = decision.action.ending
    more = {} if ending is None else {"ending": ending.value}
    if ending in (Ending.SILENCE, Ending.DIE):  # nobody is left to tell it afterwards
        seen.over(fault=decision.number, **more)
        return await befallen
    try:
        return await befallen
    finally:
        seen.over(fault=decision.number, **more)


def _throttled(serve: Any, throttle_ms: int, *asked: Any) -> Any:  # noqa: ANN401 - a Handle
    """`serve`, whose response says how long its client is to rest."""
    response = serve(*asked)
    if isinstance(response, Awaitable):
        return _throttled_later(response, throttle_ms)
    return _tell_throttle(response, throttle_ms)


async def _throttled_later(response: Awaitable[Any], throttle_ms: int) -> Any:  # noqa: ANN401 - as above
    return _tell_throttle(await response, throttle_ms)


def _tell_throttle(response: Any, throttle_ms: int) -> Any:  # noqa: ANN401 - as above
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms
    return response
