"""Peers: one `Peer` for each other broker and each kind of work (`Role`).

Each role has a connection of its own, so that a slow request delays no other kind of work.  Client
ids are those of Apache Kafka's brokers if they send the same requests: quotas and logs use them.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

from kwire.cluster.peers.connection import PeerTraffic
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
    DEAD_LETTERS = "dead letters of share groups"


_CLIENT_IDS = {
    Role.FETCHER: "broker-{id}-fetcher-{number}",
    Role.TO_CONTROLLER: "broker-{id}-to-controller",
    Role.TXN_MARKERS: "broker-{id}-txn-marker-sender",
    Role.VERIFICATION: "AddPartitionsManager",
    Role.SHARE_STATE: "broker-{id}-share-states",
    Role.DEAD_LETTERS: "broker-{id}-dead-letters",
    Role.TELEMETRY: "broker-{id}-telemetry",
}
"""Client ids of roles; that of the other roles is this broker's id.  kwire.testing.hooks.faults
tells by these whether a request that clients send too comes from a broker."""


class Peers:
    """All peers of this broker: created on first use, closed when the other broker is gone."""

    def __init__(self, settings: LiveSettings, image: Callable[[], ClusterImage]) -> None:
        """`image` returns this broker's metadata image.

        Raises ConfigError if the inter-broker listener requires a login or TLS and the settings
        for it are missing.
        """
        self._settings = settings
        self._image = image
        self._tls = _tls_of(settings)
        self._log_in = _login_of(settings.config)
        self._peers: dict[tuple[int, Role, int], Peer] = {}
        self.traffic: dict[tuple[int, Role], PeerTraffic] = {}
        """What all connections to a broker have carried, for each kind of work."""

    def peer(self, broker_id: int, role: Role, number: int = 0) -> Peer:
        """Return the peer for this work; `number` tells fetchers of one leader apart."""
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
                traffic=self.traffic.setdefault((broker_id, role), PeerTraffic()),
            )
        return found

    def connected(self) -> Counter[tuple[int, Role]]:
        """The numbers of open connections to each broker, for each kind of work."""
        return Counter(
            (broker_id, role)
            for (broker_id, role, _), peer in self._peers.items()
            if peer.is_connected
        )

    def broken(self, role: Role) -> list[int]:
        """The brokers that closed their connection for this kind of work a moment ago."""
        return [
            broker_id
            for (broker_id, of_role, _), peer in self._peers.items()
            if of_role is role and peer.has_broken
        ]

    def address(self, broker_id: int) -> Endpoint | None:
        """The inter-broker endpoint of a broker; None if the broker is not alive."""
        broker = self._image().brokers.get(broker_id)
        if broker is None:
            return None
        return broker.endpoint(self._settings.config.inter_broker_listener)

    def release(self, broker_id: int, role: Role, number: int = 0) -> None:
        """Close a peer that is no longer needed."""
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
        """Return the timeouts and buffer size that the settings give for a kind of work."""
        config = self._settings.config
        request_timeout_ms = config.request_timeout_ms
        # -1 leaves the size of the socket's buffer to the system.
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
    """Return the TLS of the inter-broker listener; None if the listener has no TLS.

    Raises ConfigError if its files cannot be used.
    """
    if not settings.config.inter_broker_protocol.endswith("SSL"):
        return None
    from kwire.cluster.peers.tls import PeerTls

    return PeerTls(lambda: settings.config)


def _login_of(config: BrokerConfig) -> LogIn | None:
    """Return the login of the inter-broker listener; None if the listener has no SASL.

    Raises ConfigError if its settings cannot be used.
    """
    if not config.inter_broker_protocol.startswith("SASL_"):
        return None
    from kwire.cluster.peers.login import PeerLogin

    return PeerLogin(config).log_in
