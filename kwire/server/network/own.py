"""The connection by which whoever starts a broker asks something of it, before anybody is let in.

It is a pair of sockets within the process, which comes by no listener: so it needs no login, no
rule holds it back, and no quota counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.codecs.primitives import Message
from kwire.requests.context import CloseConnection, Context
from kwire.server.network.connection import Connection, Outcome
from kwire.server.network.replies import encode_reply, failed

if TYPE_CHECKING:
    from kwire.requests.routes import Binding
    from kwire.settings import BrokerConfig

OWN_HOST: Final = "127.0.0.1"


def own_context(config: BrokerConfig) -> Context:
    """As one who came by the first listener: the cluster's addresses are told by it."""
    return Context(config.listeners[0].listener, OWN_HOST, f"{OWN_HOST}:0-{OWN_HOST}:0-own")


class OwnConnection(Connection):
    """See the module."""

    __slots__ = ()

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Outcome:
        """As others' requests, but without a guard before the handler."""
        try:
            response = binding.handle(self._broker, request, self.context)
        except CloseConnection:
            raise
        except Exception:
            response = failed(binding, self.context)
        if response.__class__ is binding.response_class:
            return encode_reply(binding, correlation_id, response)
        return None if response is None else self._wait(binding, correlation_id, response)
