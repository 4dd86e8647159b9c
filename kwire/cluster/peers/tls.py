"""PeerTls: TLS on connections to other brokers and to controllers, if their listener uses it."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import trio

from kwire.security.listener_tls import tls_options
from kwire.security.tls.context import client_context
from kwire.security.tls.error import TlsError, reason_of
from kwire.server.tls.handshake import push_all
from kwire.server.tls.transport import TlsTransport
from kwire.settings import ConfigError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from kwire.settings import BrokerConfig


class PeerTls:
    """Uses a listener's keystore and truststore, read anew for each connection."""

    def __init__(self, config: Callable[[], BrokerConfig], listener: str | None = None) -> None:
        """Use the settings of `listener`, by default those of the inter-broker listener.

        Raises ConfigError if the settings, or the files that they name, cannot be used.
        """
        self._config = config
        self._listener = listener
        self._context()

    def _context(self) -> ssl.SSLContext:
        """Return a TLS context made from the present files.  Raises ConfigError."""
        config = self._config()
        listener = self._listener or config.inter_broker_listener
        try:
            return client_context(tls_options(config, listener, "SSL"))
        except TlsError as problem:
            raise ConfigError(f"listener {listener}: {problem}") from None

    async def begin(self, client: socket.socket, host: str) -> TlsTransport:
        """Do the TLS handshake over a connected, non-blocking socket.  Raises OSError."""
        try:
            context = await trio.to_thread.run_sync(self._context)
            transport = TlsTransport(client, context, host)
            await _shake_hands(transport)
        except ConfigError as problem:
            raise ConnectionAbortedError(None, str(problem)) from None
        except ssl.SSLError as problem:
            reason = reason_of(problem, "the broker's")
            raise ConnectionAbortedError(None, f"SSL handshake failed: {reason}") from None
        return transport


async def _shake_hands(transport: TlsTransport) -> None:
    """Completes the TLS handshake of a client.  Raises OSError.

    The handshake runs in a thread, because its cryptography would block the loop.
    """
    while not transport.more:
        try:
            await trio.to_thread.run_sync(transport.tls.do_handshake)
        except ssl.SSLWantReadError:
            await push_all(transport)
            await trio.lowlevel.wait_readable(transport)
            if not transport.take_in():
                raise ConnectionResetError(
                    "it closed the connection during the SSL handshake"
                ) from None
        except ssl.SSLError:
            transport.push()  # sends the TLS alert, which names the reason
            raise
        else:
            # Application data may have come together with the end of the handshake.
            transport.more = True
    await push_all(transport)
