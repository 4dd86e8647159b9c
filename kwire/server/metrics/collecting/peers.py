"""Connections to other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.metrics.samples import Samples

COUNTS: Final = {
    "opened": "connections_opened",
    "failed": "connection_failures",
    "requests": "requests",
    "bytes_out": "outgoing_bytes",
    "bytes_in": "incoming_bytes",
}
"""The counts of a PeerTraffic, and the names of their metrics."""


def collect(broker: Broker, samples: Samples) -> None:
    """Give what the connections to each other broker carry, by the kind of work."""
    peers = broker.node.peers
    if peers is None:
        return  # a broker alone
    connected = peers.connected()
    for (broker_id, role), traffic in peers.traffic.items():
        labels = str(broker_id), role.value
        samples.set("kwire_peer_connections", connected[broker_id, role], *labels)
        for attribute, name in COUNTS.items():
            samples.set(f"kwire_peer_{name}_total", getattr(traffic, attribute), *labels)
