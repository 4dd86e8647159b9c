"""The broker's connection to itself, for requests before any client is admitted.

It is a pair of sockets within the process (see `declare` of kwire.server.server.serve).  It belongs
to no listener: it needs no login, has all rights, and no quota counts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from kwire.codecs.primitives import Message
from kwire.requests.context import CloseConnection, Context
from kwire.server.network.connection import Connection, Outcome
from kwire.server.network.replies import encode_reply, failed

if TYPE_CHECKING:
    from kwire.requests.routes import Binding
    from kwire.settings import BrokerConfig

OWN_HOST: Final = "127.0.0.1"


def own_context(config: BrokerConfig) -> Context:
    """The context of a client of the first listener, whose addresses Metadata then reports."""
    return Context(config.listeners[0].listener, OWN_HOST, f"{OWN_HOST}:0-{OWN_HOST}:0-own")


class OwnConnection(Connection):
    """A connection without guard, gate and shortcuts; see the module."""

    __slots__ = ()

    def begin(self, nursery: trio.Nursery, on_end: Callable[[Connection], None]) -> None:
        """As Connection.begin, with a task from the start, so that it ends with `nursery`."""
        self._nursery, self._on_end = nursery, on_end
        self.resume(None)

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Outcome:
        """Like Connection._handle, without the check of rights."""
        try:
            response = binding.handle(self._broker, request, self.context)
        except CloseConnection:
            raise
        except Exception:
            response = failed(binding, self.context)
        if response.__class__ is binding.response_class:
            return encode_reply(binding, correlation_id, response)
        return None if response is None else self._wait(binding, correlation_id, response)
