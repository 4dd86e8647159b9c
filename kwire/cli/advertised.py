"""What clients will be told of this broker's addresses, and where that cannot work.

A client connects to the bootstrap address, is told the advertised one, and uses that from then on:
the commonest trouble with a new broker is an advertised address that the client cannot reach.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import Endpoint
    from kwire.settings import BrokerConfig

WILDCARDS = ("", "0.0.0.0", "::")
"""Listening there is listening on every interface."""

log = logging.getLogger("kwire.serve")


def listener_lines(config: BrokerConfig) -> Iterator[str]:
    """A line for each listener: where it listens and what its clients are told."""
    advertised = {endpoint.listener: endpoint for endpoint in config.advertised_listeners}
    for bound in config.listeners:
        where = f"{bound.host or '*'}:{bound.port}"
        told = advertised.get(bound.listener)
        if told is None:
            yield f"{bound.listener} listens on {where}; its clients are told of no broker"
        elif (told.host, told.port) == (bound.host, bound.port):
            yield f"{bound.listener} listens on {where}, and clients are told so"
        else:
            yield f"{bound.listener} listens on {where}; clients are told {told.host}:{told.port}"


def warn_in_background(config: BrokerConfig) -> None:
    """Warn of addresses that cannot work, without keeping anyone waiting for a slow resolver."""
    threading.Thread(target=_warn, args=(config,), name="advertised", daemon=True).start()


def _warn(config: BrokerConfig) -> None:
    for warning in warnings(config):
        log.warning("%s", warning)


def warnings(config: BrokerConfig) -> Iterator[str]:
    """A sentence for each advertised address that some or all clients cannot use."""
    bound = {endpoint.listener: endpoint for endpoint in config.listeners}
    explicit = "advertised.listeners" in config.explicit
    for told in config.advertised_listeners:
        addresses = resolved(told.host)
        if addresses is None:
            yield (
                f"clients of {told.listener} are told {told.host}:{told.port}, and that name "
                "cannot be resolved here: set advertised.listeners to one that clients can reach"
            )
        elif bound[told.listener].host in WILDCARDS:
            yield from _wildcard_warnings(told, addresses, explicit)


def _wildcard_warnings(told: Endpoint, addresses: list[str], explicit: bool) -> Iterator[str]:
    """Whoever listens on every interface wants clients from elsewhere."""
    loopback = all(address.startswith("127.") or address == "::1" for address in addresses)
    if loopback:
        yield (
            f"{told.listener} listens on every interface, and clients are told "
            f"{told.host}:{told.port}: clients in other containers or on other machines will look "
            "for the broker on their own; set advertised.listeners for them"
        )
    elif not explicit:
        yield (
            f"{told.listener} listens on every interface, and clients are told this host's name, "
            f"{told.host}:{told.port}: clients that cannot resolve it need advertised.listeners"
        )


def resolved(host: str) -> list[str] | None:
    """The addresses of a host; None if it has none."""
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, None)]
    except (OSError, UnicodeError):
        return None
