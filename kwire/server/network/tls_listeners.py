"""TLS of the listeners: makes their connections, and reloads changed certificates and settings."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final

import trio

from kwire.security.listener_tls import PROTOCOLS, ListenerTls, UnknownPrincipal
from kwire.server.network.tls_connection import TlsConnection
from kwire.server.tls.handshake import HandshakeFailed, Handshakes
from kwire.server.tls.transport import TlsTransport
from kwire.settings import ConfigError

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cluster.metadata.image import Endpoint
    from kwire.requests.context import Context
    from kwire.security.tls.options import TlsOptions
    from kwire.server.network.connection import Connection, LogIn
    from kwire.server.network.memory import MemoryPool
    from kwire.server.network.readiness import ReadySockets, WaitingSockets
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.network.tls")

LOOK_INTERVAL_S: Final = 1.0
"""The time between two checks of files and settings.  Apache Kafka reads files again only when an
administrator alters the configs of the listener."""

_Mark = tuple[int, int, int] | None


class TlsListeners:
    """All listeners with TLS.  The constructor reads files (it blocks), and raises ConfigError."""

    def __init__(self, broker: Broker) -> None:
        """Read the certificates of all listeners with TLS. Raises ConfigError."""
        self._broker = broker
        self.handshakes = Handshakes()
        self._by_listener = {
            endpoint.listener: _TlsListener(broker, endpoint)
            for endpoint in broker.config.listeners
            if endpoint.security_protocol in PROTOCOLS
        }
        broker.check_stores = self.check

    def has(self, listener: str) -> bool:
        return listener in self._by_listener

    def connection(
        self,
        client: socket,
        context: Context,
        memory: MemoryPool,
        ready: ReadySockets | WaitingSockets,
        log_in: LogIn | None = None,
        kind: type[TlsConnection] = TlsConnection,
    ) -> TlsConnection:
        """Return the connection of a new client of a TLS listener; `log_in` runs after the
        handshake.
        """
        tls = self._by_listener[context.listener].tls
        transport = TlsTransport(client, tls.context)
        begin = partial(self._log_in, transport=transport, tls=tls, within=log_in)
        return kind(self._broker, transport, context, memory, ready, begin)

    async def _log_in(
        self,
        connection: Connection,
        transport: TlsTransport,
        tls: ListenerTls,
        within: LogIn | None,
    ) -> bool:
        """Do the handshake, then the SASL login `within` TLS, if any; return whether both succeed.

        The principal is the one of the client's certificate. A failed handshake is logged.
        """
        context = connection.context
        try:
            await self.handshakes.shake_hands(transport)
            context.principal = tls.principal_of(transport.tls)
        except (HandshakeFailed, UnknownPrincipal) as error:
            log.info("closing %s: SSL handshake failed: %s", context.connection_id, error)
            return False
        return within is None or await within(connection)

    async def check(self, config: BrokerConfig, listeners: Sequence[str]) -> None:
        """Raise ConfigError if one of `listeners` (names in lower case) cannot use `config`."""
        for listener, served in self._by_listener.items():
            if listener.lower() in listeners:
                await trio.to_thread.run_sync(served.check, config)

    async def follow(self) -> None:
        """Reload changed certificates and settings of all listeners, until cancelled."""
        while True:
            await trio.sleep(LOOK_INTERVAL_S)
            for served in self._by_listener.values():
                await trio.to_thread.run_sync(served.follow, self._broker.config)


class _TlsListener:
    """The TLS of one listener, with the settings and the file states that it was made of."""

    def __init__(self, broker: Broker, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._config = broker.config
        self.tls = self._made(broker.config)
        self._tried = self.tls.options
        self._marks = _marks(self._tried)

    def _made(self, config: BrokerConfig) -> ListenerTls:
        endpoint = self._endpoint
        return ListenerTls(config, endpoint.listener, endpoint.security_protocol)

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if `follow` could not use `config`.  It blocks: call it in a thread."""
        self._made(config).check_replaces(self.tls)

    def follow(self, config: BrokerConfig) -> None:
        """Use `config` and changed files from now on.  It blocks: call it in a thread.

        If they cannot be used, it logs an error once, and the listener keeps its certificates.
        """
        marks = _marks(self._tried)
        if config is self._config and marks == self._marks:
            return
        self._config, self._marks = config, marks
        listener = self._endpoint.listener
        try:
            made = self._made(config)
            self._tried, self._marks = made.options, _marks(made.options)
            made.check_replaces(self.tls)
        except ConfigError as error:
            log.error("listener %s keeps its old certificates: %s", listener, error)
            return
        if made.differs_from(self.tls):
            log.info("listener %s uses the new certificates for new connections", listener)
        self.tls = made


def _marks(options: TlsOptions) -> tuple[_Mark, ...]:
    """The states of the keystore and truststore files: a changed state means a changed file."""
    stores = [options.keystore, options.truststore]
    return tuple(_mark(store.location) for store in stores if store is not None)


def _mark(location: str | None) -> _Mark:
    """Return what changes when the file is replaced: time, size and inode; None without a file."""
    try:
        status = Path(location or "").stat()
    except OSError:  # the file does not exist while it is replaced
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
