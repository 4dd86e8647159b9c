"""A connection of a broker under a test's control: rules may inject faults into its requests.

It exists only with `kwire serve --control`.  Its requests never take a shortcut: another rule may
match the same bytes the next time.
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
    """The base of both connections below, which differ in their transport."""

    __slots__ = ()

    control: Control

    def _answer_repeated(self) -> bytes | bytearray | None:
        return None

    def _learn(self, api_key: int, exchange: Exchange[Any, Any]) -> None:
        """Does nothing: there are no shortcuts here."""

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Outcome:
        """Handle the request, after the rules of a test: restricted versions, faults, traces.

        Without any such rule it does the same as an ordinary connection.
        """
        faults, traces = self.control.faults, self.control.traces
        if self.control.versions:
            binding = self.control.versions.bound(binding)
        if not (faults or traces):
            return super()._handle(binding, correlation_id, request, frame)
        details = self._details(binding, request)
        seen = traces.see(
            details, self._broker.node_id, self.context.connection_id, correlation_id, frame
        )
        decision = faults.decide(details)
        if decision is None:
            watched = binding if seen is None else Watched.over(binding, seen)
            return super()._handle(watched, correlation_id, request, frame)
        log.info(
            "injecting fault %d into a request of API key %d on %s (client id %r)",
            decision.number,
            binding.api_key,
            self.context.connection_id,
            self.context.client_id,
        )
        handle = partial(super()._handle, correlation_id=correlation_id, frame=frame)
        reply = self._inject(decision, binding, request, handle, seen)
        return reply if seen is None else _traced(seen, decision, reply)

    def _call_handler(self, binding: Binding, request: Message) -> Handled:
        serve = partial(super()._call_handler, binding, request)
        return watch(binding.seen, serve) if isinstance(binding, Watched) else serve()

    def _details(self, binding: Binding, request: Message) -> RequestInfo:
        """Return what the rules may match: API, version, client id, request and topics."""
        return RequestInfo(
            binding.api_key,
            binding.api_version,
            self.context.client_id,
            request,
            self._broker.metadata.topic_name,
            partial(fetch_parts, self._broker, request),
        )

    async def _inject(
        self,
        decision: FaultDecision,
        binding: Binding,
        request: Message,
        handle: partial[Outcome],
        seen: TracedRequest | None,
    ) -> Frame | None:
        """Carry out the fault of `decision`; returns the reply, None if there is none."""
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
        """Return the binding, with a handler that injects the action's error and throttle time."""
        action, serve = decision.action, binding.handle
        if action.error is not None:
            serve = refusing(decision.rule, action, binding, serve)
        if action.throttle_ms:
            serve = partial(_throttled, serve, action.throttle_ms)
        return binding if serve is binding.handle else replace(binding, handle=serve)

    async def _end_by(self, decision: FaultDecision, reply: Frame | None) -> Frame | None:
        """End the request without a whole reply: kill the process, stay silent, or close."""
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
    """A plain connection of a controlled broker; `control` is set before it runs."""

    __slots__ = ("control",)


class ControlledTlsConnection(_Controlled, TlsConnection):
    """A connection of a controlled broker inside TLS; `control` is set before it runs."""

    __slots__ = ("control",)


async def _traced(
    seen: TracedRequest, decision: FaultDecision, pending: Coroutine[Any, Any, Frame | None]
) -> Frame | None:
    """Return the reply of a request with a fault; ends the request's entry in the trace."""
    ending = decision.action.ending
    more = {} if ending is None else {"ending": ending.value}
    if ending in (Ending.SILENCE, Ending.DIE):  # `pending` never returns: report it before
        seen.over(fault=decision.number, **more)
        return await pending
    try:
        return await pending
    finally:
        seen.over(fault=decision.number, **more)


def _throttled(serve: Any, throttle_ms: int, *arguments: Any) -> Any:  # noqa: ANN401 - a Handle
    """The response of `serve` (or an awaitable of it), with this throttle time."""
    response = serve(*arguments)
    if isinstance(response, Awaitable):
        return _throttled_later(response, throttle_ms)
    return _set_throttle(response, throttle_ms)


async def _throttled_later(response: Awaitable[Any], throttle_ms: int) -> Any:  # noqa: ANN401 - as above
    return _set_throttle(await response, throttle_ms)


def _set_throttle(response: Any, throttle_ms: int) -> Any:  # noqa: ANN401 - as above
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms
    return response
