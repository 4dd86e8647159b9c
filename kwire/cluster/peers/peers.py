"""Who is reached where: a `Peer` for each other broker and each kind of work.

Each kind has a connection of its own, so that what takes long holds up nothing else.  Client ids
are those of Apache Kafka's brokers, where these ask the same, for quotas and logs go by them.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kwire.cluster.peers.peer import LogIn, Peer, PeerLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.cluster.metadata.image import ClusterImage, Endpoint
    from kwire.cluster.peers.tls import PeerTls
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings


class Role(Enum):
    """What a connection to another broker is for."""

    FETCHER = "fetcher"
    CONTROLLER = "controller"
    """From the controller to a broker."""
    TO_CONTROLLER = "to the controller"
    FORWARDING = "forwarding"
    TXN_MARKERS = "transaction markers"
    VERIFICATION = "transaction verification"
    TELEMETRY = "what clients pushed"
    SHARE_STATE = "states of share partitions"


_CLIENT_IDS = {
    Role.FETCHER: "broker-{id}-fetcher-{number}",
    Role.TO_CONTROLLER: "broker-{id}-to-controller",
    Role.TXN_MARKERS: "broker-{id}-txn-marker-sender",
    Role.VERIFICATION: "AddPartitionsManager",
    Role.SHARE_STATE: "broker-{id}-share-states",
    Role.TELEMETRY: "broker-{id}-telemetry",
}
"""Where it is not the number of the broker that asks.  What only brokers ask is known by its API;
what clients ask, too, by these (kwire.testing.hooks.faults.machine)."""


class Peers:
    """All peers of one broker; made when first asked for, closed when their broker is gone."""

    def __init__(self, settings: LiveSettings, image: Callable[[], ClusterImage]) -> None:
        """`image` gives the cluster as its owner knows it.

        Raises ConfigError where the others ask for a login or for TLS, and there is none."""
        self._settings = settings
        self._image = image
        self._tls = _tls_of(settings)
        self._log_in = _login_of(settings.config)
        self._peers: dict[tuple[int, Role, int], Peer] = {}

    def peer(self, broker_id: int, role: Role, number: int = 0) -> Peer:
        """The peer for this work; `number` tells fetchers of one leader apart."""
        key = broker_id, role, number
        found = self._peers.get(key)
        if found is None:
            found = self._peers[key] = Peer(
                broker_id,
                lambda: self.address(broker_id),
                client_id=_CLIENT_IDS.get(role, "{id}").format(
                    id=self._settings.node_id, number=number
                ),
                limits=self._limits(role),
                tls=self._tls,
                log_in=self._log_in,
            )
        return found

    def address(self, broker_id: int) -> Endpoint | None:
        """Where a live broker listens for others; None for one that is not alive."""
        broker = self._image().brokers.get(broker_id)
        if broker is None:
            return None
        return broker.endpoint(self._settings.config.inter_broker_listener)

    def release(self, broker_id: int, role: Role, number: int = 0) -> None:
        """Nobody needs this peer any longer."""
        found = self._peers.pop((broker_id, role, number), None)
        if found is not None:
            found.close()

    def drop(self, broker_id: int) -> None:
        """Close all connections to a broker that is gone."""
        for key in [key for key in self._peers if key[0] == broker_id]:
            self._peers.pop(key).close()

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def _limits(self, role: Role) -> PeerLimits:
        config = self._settings.config
        request_timeout_ms = config.request_timeout_ms
        receive_buffer_bytes = -1
        if role is Role.FETCHER:
            request_timeout_ms = config.replica_socket_timeout_ms
            if config.given("replica.socket.receive.buffer.bytes"):  # else the system grows it
                receive_buffer_bytes = config.replica_socket_receive_buffer_bytes
        elif role in (Role.CONTROLLER, Role.TO_CONTROLLER):
            request_timeout_ms = config.controller_socket_timeout_ms
        return PeerLimits(
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=config.socket_connection_setup_timeout_ms,
            receive_buffer_bytes=receive_buffer_bytes,
        )


def _tls_of(settings: LiveSettings) -> PeerTls | None:
    """Where the listener between brokers has it.  Raises ConfigError where it cannot be used."""
    if not settings.config.inter_broker_protocol.endswith("SSL"):
        return None
    from kwire.cluster.peers.tls import PeerTls

    return PeerTls(lambda: settings.config)


def _login_of(config: BrokerConfig) -> LogIn | None:
    """Where the listener between brokers asks for it.  Raises ConfigError where it cannot be."""
    if not config.inter_broker_protocol.startswith("SASL_"):
        return None
    from kwire.cluster.peers.login import PeerLogin

    return PeerLogin(config).log_in
