"""Who may connect: `max.connections`, `max.connections.per.ip` with its overrides, and the rate.

As in Apache Kafka: over an address's limit a connection is accepted and closed at once.  Where a
listener is full, or new ones come too fast, nothing is accepted until there is room: they wait in
the kernel's queue.  The listener between brokers is not held up by what is meant for the whole
broker where there are other listeners; those make room for it (`excess`).  Lowering a limit of
addresses ends no connection, lowering `max.connections` does.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import struct
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

import trio

from kwire.settings import BrokerConfig
from kwire.settings.connection_limits import LISTENER_LIMITS, listener_limit, parse_overrides

if TYPE_CHECKING:
    from kwire.security.quotas.addresses import AddressRates

log = logging.getLogger("kwire.network.limits")

RATE_WINDOW_S = 10
"""Over how long `max.connection.creation.rate` is kept; Kafka averages over ten seconds too, so
that a burst passes."""

_WHOLE_BROKER = ""
_IPV4_MAPPED = bytes(10) + b"\xff\xff"


def canonical_address(host: str) -> str:
    """One spelling for each address, and Java's, for DescribeGroups tells it.

    An IPv4 client of a socket that takes both is an IPv4 one.
    """
    if ":" not in host:
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    if packed.startswith(_IPV4_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[len(_IPV4_MAPPED) :])
    return ":".join(f"{group:x}" for group in struct.unpack(">8H", packed))


class ConnectionLimits:
    """Counts the broker's connections, over all listeners, and says whether one more may come."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._overrides: dict[str, int] = {}
        self._unresolved: dict[str, int] = {}
        self._total = 0
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._came: dict[str, deque[float]] = {}
        self._of_listeners: dict[str, tuple[int | None, int | None]] = {}
        self._read_overrides()

    def follow(self, config: BrokerConfig) -> None:
        """Live by `config` from now on."""
        if config is not self._config:
            self._config = config
            self._read_overrides()

    def _read_overrides(self) -> None:
        self._overrides, self._unresolved, self._of_listeners = {}, {}, {}
        for host, count in parse_overrides(self._config.max_connections_per_ip_overrides).items():
            try:
                ipaddress.ip_address(host)
            except ValueError:
                self._unresolved[host] = count
            else:
                self._overrides[canonical_address(host)] = count

    async def resolve_names(self) -> None:
        """Find out whom overrides mean that name a host; the name service may take its time."""
        names, self._unresolved = self._unresolved, {}
        for name, count in names.items():
            try:
                found = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except OSError as problem:
                log.error("max.connections.per.ip.overrides: %r is no host: %s", name, problem)
                continue
            for *_, address in found:
                self._overrides.setdefault(canonical_address(str(address[0])), count)

    # -- questions

    def has_room(self, listener: str, waiting: int = 0) -> bool:
        """Whether one more may be accepted now, where `waiting` are that are not counted yet."""
        config = self._config
        most, rate = self._limits_of(listener)
        if most is not None and self._by_listener[listener] + waiting >= most:
            return False
        if self._is_too_fast(listener, rate, waiting):
            return False
        if self._is_protected(listener):
            return True
        return self._total + waiting < config.max_connections and not self._is_too_fast(
            _WHOLE_BROKER, config.max_connection_creation_rate, waiting
        )

    def limit_reached(self, address: str) -> int | None:
        """How many connections `address` may have, if it has as many already."""
        limit = self._overrides.get(address, self._config.max_connections_per_ip)
        return limit if self._by_address[address] >= limit else None

    def excess(self) -> int:
        """How many connections are above `max.connections`."""
        return max(0, self._total - self._config.max_connections)

    def may_be_closed(self, listener: str) -> bool:
        """Whether connections of `listener` make room when there are too many."""
        return not self._is_protected(listener)

    def _limits_of(self, listener: str) -> tuple[int | None, int | None]:
        """The listener's own limits: connections, and new ones a second."""
        limits = self._of_listeners.get(listener)
        if limits is None:
            most, rate = (listener_limit(self._config, listener, each) for each in LISTENER_LIMITS)
            limits = self._of_listeners[listener] = most, rate
        return limits

    def _is_protected(self, listener: str) -> bool:
        config = self._config
        return len(config.listeners) > 1 and listener == config.inter_broker_listener

    def _is_too_fast(self, key: str, rate: int | None, waiting: int) -> bool:
        if rate is None or rate >= _RATE_UNLIMITED:
            self._came.pop(key, None)
            return False
        came = self._came.setdefault(key, deque())
        start = time.monotonic() - RATE_WINDOW_S
        while came and came[0] < start:
            came.popleft()
        return len(came) + waiting >= rate * RATE_WINDOW_S

    # -- what happens

    def add(self, listener: str, address: str) -> None:
        self._total += 1
        self._by_address[address] += 1
        self._by_listener[listener] += 1

    def note_new(self, listener: str) -> None:
        """One was accepted, whether it may stay or not: for the rate."""
        if self._came:
            for key in (listener, _WHOLE_BROKER):
                if key in self._came:
                    self._came[key].append(time.monotonic())

    def remove(self, listener: str, address: str) -> None:
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


async def resolve(rates: AddressRates) -> None:
    """Find out which addresses are meant where a quota names a host, or an address in other words.

    As Kafka does, the first address of a host, once when quotas were set.
    """
    found: dict[str, str] = {}
    for name in rates.names:
        try:
            ((*_, address), *_) = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as problem:
            log.debug("connection_creation_rate: %r is no host: %s", name, problem)
            continue
        found[canonical_address(str(address[0]))] = name
    rates.resolve(found)


_RATE_UNLIMITED = 2**31 - 1
