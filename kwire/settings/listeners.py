"""Parses `listeners`, `advertised.listeners` and their security protocols as Kafka does."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence

from kwire.cluster.metadata.image import SECURITY_PROTOCOLS, Endpoint
from kwire.settings.error import ConfigError

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
PORT_MAX = 65535


def security_protocols(text: str) -> dict[str, str]:
    """Return the security protocol of each listener, from `listener.security.protocol.map`."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = entry.rpartition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not colon or not name:
            raise ConfigError(f"listener.security.protocol.map: {entry!r} is not LISTENER:PROTOCOL")
        if name in protocols:
            raise ConfigError(f"listener.security.protocol.map names listener {name} twice")
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"Invalid security protocol `{protocol}` defined in listener.security.protocol.map"
                f"; it is one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def parse_endpoints(
    setting: str, texts: Sequence[str], protocols: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    """Return the endpoints of a list of `NAME://host:port`.  An empty host means all interfaces.

    Raises ConfigError for a text in another form and for a name that is given twice.
    """
    endpoints = []
    for text in texts:
        match = _ENDPOINT.fullmatch(text)
        if match is None:
            raise ConfigError(f"{setting}: {text!r} is not LISTENER://host:port")
        name, host, port = match[1].upper(), match[2], int(match[3])
        if not 0 <= port <= PORT_MAX:
            raise ConfigError(f"{setting}: the port of {text!r} is not between 0 and {PORT_MAX}")
        if name not in protocols:
            raise ConfigError(
                f"{setting}: No security protocol defined for listener {name}; "
                f"add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        endpoints.append(Endpoint(name, host, port, protocols[name]))
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise ConfigError(f"{setting}: Each listener must have a different name: {_shown(texts)}")
    return tuple(endpoints)


def require_distinct_ports(endpoints: Iterable[Endpoint]) -> None:
    """Raise ConfigError if two listeners have the same port.

    One listener on an IPv4 address and one on an IPv6 address may share a port.
    """
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        versions = [_ip_version(endpoint.host) for endpoint in sharing]
        if len(sharing) == 1 or sorted(versions, key=str) == [4, 6]:
            continue
        raise ConfigError(
            f"listeners: Each listener must have a different port: "
            f"{' and '.join(endpoint.listener for endpoint in sharing)} both have {port} "
            "(one IPv4 and one IPv6 address may share one)"
        )


def _ip_version(host: str) -> int | None:
    """Return 4 or 6 if the host is an IP address, None if it is a name."""
    for family, version in ((socket.AF_INET, 4), (socket.AF_INET6, 6)):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return version
    return None


def _shown(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def check_advertised(advertised: Sequence[Endpoint], listeners: Sequence[Endpoint]) -> None:
    """Raise ConfigError if an advertised endpoint is not routable or is no listener."""
    known = {endpoint.listener for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.host in ("0.0.0.0", "::"):
            raise ConfigError(
                f"advertised.listeners cannot use the nonroutable meta-address {endpoint.host}. "
                "Use a routable IP address. Clients connect to the advertised address: set "
                f"advertised.listeners={endpoint.listener}://<a host name that clients can reach>:"
                f"{endpoint.port}"
            )
        if endpoint.listener not in known:
            raise ConfigError(
                "advertised.listeners listener names must be equal to or a subset of the ones "
                f"defined in listeners. Found {endpoint.listener}. The valid options based on the "
                f"current configuration are {','.join(sorted(known))}"
            )


def own_host_name() -> str:
    """Return the canonical name of this host, as Java's InetAddress.getLocalHost returns it.

    It is `localhost` if the host's own name cannot be resolved.  Kafka would not start then.
    """
    name = socket.gethostname()
    try:
        addresses = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)
    except OSError:
        return "localhost"
    return addresses[0][3] or name
