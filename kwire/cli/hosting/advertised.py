"""Messages about the addresses that a broker advertises, and warnings about unusable ones.

A client connects to a bootstrap address, receives the advertised address, and uses that from then
on.  The most common problem with a new broker is an advertised address that clients cannot reach.
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
"""Hosts that mean all interfaces."""

log = logging.getLogger("kwire.serve")


def listener_lines(config: BrokerConfig) -> Iterator[str]:
    """A message for each listener: the address it listens on, and the address it advertises."""
    advertised = {endpoint.listener: endpoint for endpoint in config.advertised_listeners}
    for bound in config.listeners:
        address = f"{bound.host or '*'}:{bound.port}"
        endpoint = advertised.get(bound.listener)
        if endpoint is None:
            yield f"{bound.listener} listens on {address} and advertises no address"
        elif (endpoint.host, endpoint.port) == (bound.host, bound.port):
            yield f"{bound.listener} listens on {address} and advertises the same address"
        else:
            yield (
                f"{bound.listener} listens on {address} and advertises "
                f"{endpoint.host}:{endpoint.port}"
            )


def warn_in_background(config: BrokerConfig) -> None:
    """Log the warnings from a thread, since resolving host names may be slow."""
    threading.Thread(target=_warn, args=(config,), name="advertised", daemon=True).start()


def _warn(config: BrokerConfig) -> None:
    for warning in warnings(config):
        log.warning("%s", warning)


def warnings(config: BrokerConfig) -> Iterator[str]:
    """A warning for each advertised address that some or all clients cannot use."""
    bound = {endpoint.listener: endpoint for endpoint in config.listeners}
    explicit = "advertised.listeners" in config.explicit
    for endpoint in config.advertised_listeners:
        addresses = resolved(endpoint.host)
        if addresses is None:
            yield (
                f"{endpoint.listener} advertises {endpoint.host}:{endpoint.port}, and this "
                "machine cannot resolve that name: set advertised.listeners to an address that "
                "clients can reach"
            )
        elif bound[endpoint.listener].host in WILDCARDS:
            yield from _wildcard_warnings(endpoint, addresses, explicit)


def _wildcard_warnings(endpoint: Endpoint, addresses: list[str], explicit: bool) -> Iterator[str]:
    """Warnings about a listener on all interfaces, which is meant for clients on other machines."""
    advertised = f"{endpoint.host}:{endpoint.port}"
    loopback = all(address.startswith("127.") or address == "::1" for address in addresses)
    if loopback:
        yield (
            f"{endpoint.listener} listens on all interfaces but advertises {advertised}: clients "
            "in other containers or on other machines would connect to themselves; set "
            "advertised.listeners to an address that they can reach"
        )
    elif not explicit:
        yield (
            f"{endpoint.listener} listens on all interfaces and advertises this host's name, "
            f"{advertised}: set advertised.listeners if clients cannot resolve it"
        )


def resolved(host: str) -> list[str] | None:
    """The addresses of a host, or None if it cannot be resolved."""
    try:
        return [str(info[4][0]) for info in socket.getaddrinfo(host, None)]
    except (OSError, UnicodeError):
        return None
