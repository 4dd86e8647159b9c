"""The TLS of all listeners that have it, kept up with settings and files."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final

import trio

from kwire.security.listener_tls import PROTOCOLS, ListenerTls, Stranger
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
"""How often files and settings are looked at; Apache Kafka looks at files when told to alone."""

_Mark = tuple[int, int, int] | None


class TlsListeners:
    """See the module.  Raises ConfigError where a listener cannot be served; it blocks."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.handshakes = Handshakes()
        self._kept = {
            each.listener: _Kept(broker, each)
            for each in broker.config.listeners
            if each.security_protocol in PROTOCOLS
        }
        broker.check_stores = self.check

    def has(self, listener: str) -> bool:
        return listener in self._kept

    def connection(
        self,
        client: socket,
        context: Context,
        memory: MemoryPool,
        ready: ReadySockets | WaitingSockets,
        log_in: LogIn | None = None,
        kind: type[TlsConnection] = TlsConnection,
    ) -> TlsConnection:
        """What serves a new client of a listener that has TLS; `log_in` comes within it."""
        tls = self._kept[context.listener].tls
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
        context = connection.context
        try:
            await self.handshakes.shake_hands(transport)
            context.principal = tls.principal_of(transport.tls)
        except (HandshakeFailed, Stranger) as problem:
            log.info("closing %s: SSL handshake failed: %s", context.connection_id, problem)
            return False
        return within is None or await within(connection)

    async def check(self, config: BrokerConfig, listeners: Sequence[str]) -> None:
        """Raises ConfigError where one of the listeners, in small letters, cannot live by it."""
        for listener, kept in self._kept.items():
            if listener.lower() in listeners:
                await trio.to_thread.run_sync(kept.check, config)

    async def follow(self) -> None:
        """Take new certificates as they come, until cancelled."""
        while True:
            await trio.sleep(LOOK_INTERVAL_S)
            for kept in self._kept.values():
                await trio.to_thread.run_sync(kept.follow, self._broker.config)


class _Kept:
    """One listener's TLS, what it was made of, and when its files were written."""

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
        """Raises ConfigError where `follow` would keep what there is; for a thread."""
        self._made(config).check_replaces(self.tls)

    def follow(self, config: BrokerConfig) -> None:
        """Live by `config`, and by files that are others than a moment ago; for a thread.

        What does not work is told once, and changes nothing.
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
        except ConfigError as problem:
            log.error("listener %s keeps the certificates that it has: %s", listener, problem)
            return
        if made.differs_from(self.tls):
            log.info("listener %s: new connections get the new certificates", listener)
        self.tls = made


def _marks(options: TlsOptions) -> tuple[_Mark, ...]:
    """By which a change of the files is seen."""
    stores = [options.keystore, options.truststore]
    return tuple(_mark(store.location) for store in stores if store is not None)


def _mark(location: str | None) -> _Mark:
    try:
        found = Path(location or "").stat()
    except OSError:  # between two of its kind, when it is replaced
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
