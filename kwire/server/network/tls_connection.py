"""A connection inside TLS: it also reads the bytes that OpenSSL holds and no poll reports."""

from __future__ import annotations

from kwire.server.network.connection import Connection
from kwire.server.tls.transport import TlsTransport


class TlsConnection(Connection):
    """A connection whose transport is a TlsTransport."""

    __slots__ = ()

    def readable(self, *, hold: bool) -> bool:
        """Like Connection.readable, repeated until OpenSSL holds no more decrypted bytes."""
        transport = self._transport
        assert isinstance(transport, TlsTransport)
        if not self._view:  # the connection was idle; OpenSSL would find no room to decrypt
            self._take_buffer()
        going = super().readable(hold=hold)
        while going and transport.more:
            going = super().readable(hold=hold)
        return going

    def is_timely(self) -> bool:
        """True: bytes inside TLS cannot be peeked at, so they are read before timers fire."""
        return True

    async def _go_on(self) -> None:
        """Wait and read as any connection, then handle what OpenSSL still holds decrypted.

        Raises ConnectionResetError if the client ends the connection in between.
        """
        transport = self._transport
        assert isinstance(transport, TlsTransport)
        await super()._go_on()
        while transport.more and not self.readable(hold=False):
            if self._ended:
                raise ConnectionResetError("the client has ended the connection")
            await super()._go_on()
