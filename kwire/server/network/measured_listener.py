"""The connections of a broker with metrics: they are measured, and their logins are counted."""

from __future__ import annotations

from socket import socket
from typing import TYPE_CHECKING

from kwire.server.network.listener import ConnectionServer
from kwire.server.network.measured import MeasuredConnection, MeasuredPeer, MeasuredTlsConnection
from kwire.server.network.transport import PlainTransport

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.context import Context
    from kwire.server.metrics.meters import Meters
    from kwire.server.network.connection import Connection
    from kwire.server.network.tls_connection import TlsConnection
    from kwire.testing.hooks.control.service import Control


class MeasuredConnectionServer(ConnectionServer):
    """As ConnectionServer; writes to the meters of each listener."""

    def __init__(self, broker: Broker, meters: Meters, control: Control | None = None) -> None:
        super().__init__(broker, control)
        self._meters = meters
        meters.pool = self._memory
        self._plain: type[MeasuredPeer] = MeasuredConnection
        self._encrypted: type[TlsConnection] = MeasuredTlsConnection
        if control is not None:
            from kwire.server.network import measured_controlled

            self._plain = measured_controlled.MeasuredControlledConnection
            self._encrypted = measured_controlled.MeasuredControlledTlsConnection
        for endpoint in broker.config.listeners:
            meters.listener(endpoint.listener)  # a scrape shows listeners without connections, too

    def _connect(self, client: socket, context: Context) -> Connection:
        """Return the measured connection of a client, of the kind that the broker needs."""
        memory, ready, log_in = self._memory, self._ready, self.logins.of(context.listener)
        connection: MeasuredPeer
        if self.tls is not None and self.tls.has(context.listener):
            kind = self._encrypted
            encrypted = self.tls.connection(client, context, memory, ready, log_in, kind)
            assert isinstance(encrypted, MeasuredPeer)
            connection = encrypted
        else:
            transport = PlainTransport(client)
            connection = self._plain(self._broker, transport, context, memory, ready, log_in)
        if self._control is not None:
            connection.control = self._control  # type: ignore[attr-defined]  # of these two kinds
        connection.begin_measuring(self._meters)
        self._meters.connections.add(connection)
        self._meters.listener(context.listener).opened += 1
        return connection

    def _refused(self, listener: str) -> None:
        self._meters.listener(listener).refused += 1

    def _ended(self, connection: Connection) -> None:
        super()._ended(connection)
        assert isinstance(connection, MeasuredPeer)
        connection.fold()
        self._meters.connections.discard(connection)
        self._meters.listener(connection.context.listener).closed += 1
