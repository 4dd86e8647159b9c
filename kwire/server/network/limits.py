"""Limits on connections: `max.connections`, `max.connections.per.ip` and overrides, and the rate.

As in Apache Kafka, a connection above the limit of its address is accepted and closed at once.  If
a listener is full, or connections arrive too fast, nothing is accepted until there is room: new
connections wait in the queue of the kernel.  The limits of the whole broker do not hold up the
inter-broker listener if there are other listeners; connections of those are closed to make room for
it (`excess`).  Lowering a limit of addresses closes no connection; lowering `max.connections` does.
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
"""The window over which `max.connection.creation.rate` is an average.  Kafka's is ten seconds too,
so that a short burst passes."""

_WHOLE_BROKER = ""
_IPV4_MAPPED = bytes(10) + b"\xff\xff"


def canonical_address(host: str) -> str:
    """Return the address in the one spelling that Java uses, which DescribeGroups reports.

    The address of an IPv4 client of an IPv6 socket becomes its IPv4 address.
    """
    if ":" not in host:
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    if packed.startswith(_IPV4_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[len(_IPV4_MAPPED) :])
    return ":".join(f"{group:x}" for group in struct.unpack(">8H", packed))


class ConnectionLimits:
    """Counts the connections of all listeners, and decides whether one more may be accepted."""

    def __init__(self, config: BrokerConfig) -> None:
        """Begin without connections, with the limits of `config`."""
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
        """Use the limits of `config` from now on."""
        if config is not self._config:
            self._config = config
            self._read_overrides()

    def _read_overrides(self) -> None:
        """Read `max.connections.per.ip.overrides` again; host names are resolved later.

        The cached limits of the listeners are dropped, too.
        """
        self._overrides, self._unresolved, self._of_listeners = {}, {}, {}
        for host, count in parse_overrides(self._config.max_connections_per_ip_overrides).items():
            try:
                ipaddress.ip_address(host)
            except ValueError:
                self._unresolved[host] = count
            else:
                self._overrides[canonical_address(host)] = count

    async def resolve_names(self) -> None:
        """Look up the addresses of overrides that name a host; the lookup may take long."""
        names, self._unresolved = self._unresolved, {}
        for name, count in names.items():
            try:
                addresses = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except OSError as error:
                log.error("max.connections.per.ip.overrides: %r is no host: %s", name, error)
                continue
            for *_, address in addresses:
                self._overrides.setdefault(canonical_address(str(address[0])), count)

    # -- questions

    def has_room(self, listener: str, waiting: int = 0) -> bool:
        """Return whether `listener` may accept one more connection.

        `waiting` is the number of accepted connections that are not counted yet.
        """
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
        """The limit of `address` if it is reached, else None."""
        limit = self._overrides.get(address, self._config.max_connections_per_ip)
        return limit if self._by_address[address] >= limit else None

    def excess(self) -> int:
        """The number of connections above `max.connections`."""
        return max(0, self._total - self._config.max_connections)

    def may_be_closed(self, listener: str) -> bool:
        """Whether connections of `listener` may be closed when there are too many."""
        return not self._is_protected(listener)

    def _limits_of(self, listener: str) -> tuple[int | None, int | None]:
        """Return the listener's own limits: connections, and new connections a second; None: no
        limit.
        """
        limits = self._of_listeners.get(listener)
        if limits is None:
            most, rate = (listener_limit(self._config, listener, name) for name in LISTENER_LIMITS)
            limits = self._of_listeners[listener] = most, rate
        return limits

    def _is_protected(self, listener: str) -> bool:
        config = self._config
        return len(config.listeners) > 1 and listener == config.inter_broker_listener

    def _is_too_fast(self, key: str, rate: int | None, waiting: int) -> bool:
        """Return whether `key` has used up its `rate` of new connections per second.

        `key` is a listener, or the whole broker; None is no limit. `waiting` connections count as
        well.
        """
        if rate is None or rate >= _RATE_UNLIMITED:
            self._came.pop(key, None)
            return False
        came = self._came.setdefault(key, deque())
        start = time.monotonic() - RATE_WINDOW_S
        while came and came[0] < start:
            came.popleft()
        return len(came) + waiting >= rate * RATE_WINDOW_S

    # -- events

    def add(self, listener: str, address: str) -> None:
        self._total += 1
        self._by_address[address] += 1
        self._by_listener[listener] += 1

    def note_new(self, listener: str) -> None:
        """Count an accepted connection for the rate, even if it is closed at once."""
        if self._came:
            for key in (listener, _WHOLE_BROKER):
                if key in self._came:
                    self._came[key].append(time.monotonic())

    def remove(self, listener: str, address: str) -> None:
        """Count a connection that has ended."""
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


async def resolve(rates: AddressRates) -> None:
    """Look up the addresses of quotas that name a host, or spell an address in another way.

    As in Apache Kafka, only the first address of a host counts, and each quota is looked up once.
    """
    names: dict[str, str] = {}
    for name in rates.names:
        try:
            ((*_, address), *_) = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            log.debug("connection_creation_rate: %r is no host: %s", name, error)
            continue
        names[canonical_address(str(address[0]))] = name
    rates.resolve(names)


_RATE_UNLIMITED = 2**31 - 1
