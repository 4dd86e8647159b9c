"""Resolves names and opens connections, to find out which addresses this machine can reach."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from kwire.client.checkup.addresses import ConnectAttempt, Reach
from kwire.client.connection import reason_of
from kwire.client.errors import ClientError

AT_ONCE_MAX: Final = 64
"""The most hosts that are tried at the same time, on a thread each."""
ADDRESSES_MAX: Final = 8
"""The most addresses of one host that are tried."""

Greet = Callable[[], None]
"""Connects as a Kafka client does.  Raises ClientError."""


class ClientNetwork(Protocol):
    """The system's resolver and sockets."""

    def resolve(self, host: str) -> list[str]:
        """The addresses of a host.  Raises OSError or UnicodeError."""
        ...

    def connect(self, ip: str, port: int, timeout_s: float) -> None:
        """Open a TCP connection and close it.  Raises OSError."""
        ...

    def is_own(self, ip: str) -> bool:
        """Whether this machine has the address."""
        ...


class SystemNetwork:
    """The network of this machine."""

    def resolve(self, host: str) -> list[str]:
        """The addresses of a host, each once, in the order of the system's resolver."""
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in found))

    def connect(self, ip: str, port: int, timeout_s: float) -> None:
        socket.create_connection((ip, port), timeout_s).close()

    def is_own(self, ip: str) -> bool:
        """Whether a socket can be bound to the address, which works only with own addresses."""
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((ip, 0))
            except OSError:
                return False
            return True


def reach(host: str, port: int, greet: Greet, network: ClientNetwork, timeout_s: float) -> Reach:
    """What this machine finds out about an address.

    `greet` is called only if a connection can be made.  `timeout_s` limits each connection.
    """
    start = time.monotonic()
    try:
        ips = network.resolve(host)[:ADDRESSES_MAX]
    except (OSError, UnicodeError) as error:
        resolve_s = time.monotonic() - start
        return Reach(host, port, resolve_error=_resolving(error), resolve_s=resolve_s)
    resolve_s = time.monotonic() - start
    attempts = tuple(_attempt(ip, port, network, timeout_s) for ip in ips)
    return Reach(
        host,
        port,
        resolve_s=resolve_s,
        attempts=attempts,
        is_local=any(network.is_own(ip) for ip in ips),
        kafka_error=_error_of(greet) if any(each.error is None for each in attempts) else None,
    )


def _resolving(error: OSError | UnicodeError) -> str:
    """The resolver's message, such as `name or service not known`."""
    if isinstance(error, UnicodeError):
        return "it is not a valid host name"
    return (error.strerror or str(error)).lower()


def _attempt(ip: str, port: int, network: ClientNetwork, timeout_s: float) -> ConnectAttempt:
    try:
        network.connect(ip, port, timeout_s)
    except OSError as error:
        return ConnectAttempt(ip, reason_of(error))
    return ConnectAttempt(ip)


def _error_of(greet: Greet) -> str | None:
    try:
        greet()
    except ClientError as error:
        return str(error)
    return None


def reach_all(
    targets: Iterable[tuple[str, int, Greet]], network: ClientNetwork, timeout_s: float
) -> list[Reach]:
    """The results for all targets, which are tried at the same time."""
    wanted = list(targets)
    with ThreadPoolExecutor(max_workers=min(AT_ONCE_MAX, max(1, len(wanted)))) as pool:
        return list(
            pool.map(lambda each: reach(each[0], each[1], each[2], network, timeout_s), wanted)
        )
