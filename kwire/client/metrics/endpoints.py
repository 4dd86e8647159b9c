"""Finds the metrics endpoints of the brokers of a cluster, by their settings."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final

from kwire.client.cluster import Cluster
from kwire.client.configs import ConfigResourceKind
from kwire.client.connection import BrokerConnection, address_text
from kwire.client.errors import ClientError, check
from kwire.client.inspection.survey import from_each
from kwire.codecs.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

PORT: Final = "metrics.port"
HOST: Final = "metrics.host"
EVERYWHERE: Final = ("", "0.0.0.0", "::")
"""Hosts that mean all interfaces."""
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """The metrics endpoint of a broker.  `url` is None, with a reason, if there is none to ask."""

    broker_id: int
    url: str | None
    reason: str | None = None


def endpoints_of(cluster: Cluster) -> dict[int, ScrapeTarget]:
    """The endpoint of each broker, by id.  Brokers are asked at the same time.

    Raises ClientError if no broker returns metadata.
    """
    if not cluster.nodes:
        cluster.retrying(lambda: cluster.refresh([]))

    def ask(node_id: int, connection: BrokerConnection) -> ScrapeTarget:
        return endpoint_of(node_id, cluster.nodes[node_id].host, _settings(node_id, connection))

    found = from_each(cluster, ask)
    return {
        node_id: ScrapeTarget(node_id, None, str(each)) if isinstance(each, ClientError) else each
        for node_id, each in found.items()
    }


def _settings(node_id: int, connection: BrokerConnection) -> dict[str, str]:
    """The settings of the endpoint that a broker has; a broker that is not kwire's has none."""
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceKind.BROKER,
        resource_name=str(node_id),
        configuration_keys=[PORT, HOST],
    )
    result = connection.call(DescribeConfigsRequest(resources=[resource])).results[0]
    check(result.error_code, f"settings of broker {node_id}", result.error_message)
    return {each.name: each.value for each in result.configs if each.value is not None}


def endpoint_of(node_id: int, advertised_host: str, settings: dict[str, str]) -> ScrapeTarget:
    """Return the endpoint from a broker's settings and its advertised host."""
    port = settings.get(PORT, "")
    if not port.isdigit() or not int(port):
        return ScrapeTarget(
            node_id, None, "it has no metrics endpoint (kwire serve --metrics PORT)"
        )
    host = settings.get(HOST, LOOPBACK[0])
    if host in EVERYWHERE:
        host = advertised_host
    elif host in LOOPBACK and not is_this_machine(advertised_host):
        return ScrapeTarget(
            node_id, None, f"its metrics endpoint listens on {host} of another machine only"
        )
    return ScrapeTarget(node_id, f"http://{address_text(host, int(port))}")


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine: a socket can be bound to one of its addresses."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return any(_is_own(family, address) for family, _, _, _, address in found)


def _is_own(family: int, address: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(address)
        except OSError:
            return False
        return True
