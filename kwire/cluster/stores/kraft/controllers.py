"""Connections to KRaft controllers, and requests to the one that leads.

`ControllerPeers` makes a connection for each address and each kind of work: a controller answers
the requests of one connection in their order, so a slow one must not delay a heartbeat.  A
`ControllerChannel` sends requests to the leader of the moment.  Other parts of a broker use it to
register, to send heartbeats and to forward requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from kwire.cluster.metadata.image import Endpoint
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peer import Peer, PeerLimits
from kwire.cluster.stores.kraft.observing import NOBODY, Address, Leader
from kwire.codecs.errors import ErrorCode
from kwire.settings.listeners import security_protocols

if TYPE_CHECKING:
    from kwire.client.connection import Request
    from kwire.cluster.peers.peer import LogIn
    from kwire.cluster.peers.tls import PeerTls
    from kwire.settings import BrokerConfig

RETRY_MS: Final = 100
"""How long a channel waits before it asks again, unless another leader is known earlier (Kafka's
NodeToControllerRequestThread)."""


class ControllerPeers:
    """Makes and keeps a `Peer` for each controller's address and client id."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        """Use the first of `controller.listener.names`.  Raises ConfigError."""
        self.listener: str = config().controller_listener_names[0].upper()
        protocols = security_protocols(config().listener_security_protocol_map)
        protocol = protocols.get(self.listener, "PLAINTEXT")
        self._protocol = protocol
        self._tls: PeerTls | None = None
        self._log_in: LogIn | None = None
        if protocol.endswith("SSL"):
            from kwire.cluster.peers.tls import PeerTls

            self._tls = PeerTls(config, self.listener)
        if protocol.startswith("SASL_"):
            from kwire.cluster.peers.login import PeerLogin

            self._log_in = PeerLogin(config(), self.listener).log_in
        self._peers: dict[tuple[Address, str, str], Peer] = {}

    def peer(self, address: Address, client_id: str, timeout_ms: int, work: str = "") -> Peer:
        """Return the connection to that address for this kind of work."""
        key = address, client_id, work
        if key not in self._peers:
            endpoint = Endpoint(self.listener, address.host, address.port, self._protocol)
            limits = PeerLimits(request_timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms)
            self._peers[key] = Peer(
                -1,
                lambda: endpoint,
                client_id=client_id,
                limits=limits,
                tls=self._tls,
                log_in=self._log_in,
                name="the controller",
            )
        return self._peers[key]

    def close(self) -> None:
        """Close all connections; waiting calls fail."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()


class LeaderNews:
    """The leader of the controllers, as far as the observer knows; tasks can wait for a change."""

    def __init__(self) -> None:
        self.leader: Leader = NOBODY
        self._changed = trio.Event()

    def set(self, leader: Leader) -> None:
        """Take a new leader, epoch or address, and wake those who wait."""
        self.leader = leader
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def wait_changed(self, timeout_ms: float) -> None:
        """Wait until the leader changes, at most so long."""
        with trio.move_on_after(timeout_ms / 1000):
            await self._changed.wait()


class ControllerChannel:
    """Sends requests of one kind to the leader of the controllers, and follows its changes.

    A request is sent again, to the leader of that time, if a controller does not answer or answers
    NOT_CONTROLLER.  So a request may be carried out twice.  Send only requests that do no harm
    then, such as those that name the broker's epoch.
    """

    def __init__(
        self,
        peers: ControllerPeers,
        news: LeaderNews,
        client_id: str,
        request_timeout_ms: int,
        work: str = "",
    ) -> None:
        """`request_timeout_ms` limits a single try.  Channels for other `work` do not delay it."""
        self._peers = peers
        self._news = news
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._work = work

    @property
    def leader_id(self) -> int:
        """The node id of the leading controller; -1 if none is known."""
        return self._news.leader.id

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The versions of each API key that the leader serves; empty while there is no connection.

        The first call connects.
        """
        leader = self._news.leader
        if leader.address is None:
            return {}
        return self._peer(leader.address).versions

    def _peer(self, address: Address) -> Peer:
        return self._peers.peer(address, self._client_id, self._request_timeout_ms, self._work)

    async def call(self, request: Request, timeout_ms: float) -> Any:  # noqa: ANN401 - the request's
        """Send `request` to the leader until one answers; return the answer.

        Raises PeerError, which says why the last try failed, after `timeout_ms`.
        """
        failure = PeerError("the controllers", "no leader of them is known")
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                leader = self._news.leader
                if leader.address is None:
                    await self._news.wait_changed(timeout_ms)
                    continue
                try:
                    answer = await self._peer(leader.address).call(request)
                except PeerError as error:
                    failure = error
                else:
                    if getattr(answer, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                        return answer
                    failure = PeerError(
                        f"the controller at {leader.address}", "it is not the leader"
                    )
                if self._news.leader == leader:
                    await self._news.wait_changed(RETRY_MS)
        raise failure
