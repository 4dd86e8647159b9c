"""A connection inside TLS: it shakes hands first, and reads what OpenSSL holds back.

The plain connection (kwire.server.network.connection) knows nothing of it.
"""

from __future__ import annotations

from kwire.server.network.connection import Connection
from kwire.server.tls.transport import TlsTransport


class TlsConnection(Connection):
    """One whose transport is a TlsTransport."""

    __slots__ = ()

    def readable(self, *, hold: bool) -> bool:
        """As Connection.readable, until nothing is left of which no poll would tell."""
        transport = self._transport
        assert isinstance(transport, TlsTransport)
        going = super().readable(hold=hold)
        while going and transport.more:
            going = super().readable(hold=hold)
        return going

    def is_timely(self) -> bool:
        """What has come cannot be looked at and left: it is answered before the timers."""
        return True

    async def _go_on(self) -> None:
        transport = self._transport
        assert isinstance(transport, TlsTransport)
        await super()._go_on()
        while transport.more and not self.readable(hold=False):
            if self._ended:
                raise ConnectionResetError("the client has ended the connection")
            await super()._go_on()
