"""Ranges of addresses in the hosts of access control lists (KIP-1276), as Apache Kafka reads them.

A host with a slash is a range in CIDR notation, such as `10.0.0.0/8` or `2001:db8::/32`.  Bits
behind the prefix are ignored.  A host with a colon is an IPv6 range.  The rules and messages are
those of Kafka's CidrUtils, of the commons-net that it contains, and of Java's InetAddress.
"""

from __future__ import annotations

import re
import socket
from functools import lru_cache
from typing import Final, NamedTuple

_IPV4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_IPV4_RANGE: Final = re.compile(rf"{_IPV4.pattern}/([0-9]{{1,2}})")
_PREFIX_LENGTH: Final = re.compile(r"[+-]?\d+")  # digits of any script, as for Integer.parseInt
_SCOPE: Final = re.compile(r"[0-9]+")
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128
_IPV4_MAPPED: Final = 0xFFFF
"""The upper 96 bits of the IPv6 address that stands for an IPv4 address."""


class InvalidRange(ValueError):
    """A host with a slash is not a range; the text is Kafka's."""


class HostRange(NamedTuple):
    """The addresses from `first` to `last`, both included, as numbers of `bits` bits."""

    bits: int
    first: int
    last: int


def is_range(host: str) -> bool:
    """Return whether the host of an entry is meant as a range."""
    return "/" in host


def parse_range(host: str) -> HostRange:
    """Return the range that `host` stands for.  Raises InvalidRange."""
    bits, address, prefix_bits = _parse_ipv6(host) if ":" in host else _parse_ipv4(host)
    low = (1 << (bits - prefix_bits)) - 1
    return HostRange(bits, address & ~low, address | low)


def range_of(host: str) -> HostRange | None:
    """Return the range that `host` stands for, or None if it is another host.

    A host that is no valid range is one, too: Kafka's authorizer compares it as text.
    """
    if not is_range(host):
        return None
    try:
        return parse_range(host)
    except InvalidRange:
        return None


def holds(hosts: HostRange, client_host: str) -> bool:
    """Return whether the address of a client is in the range.

    `client_host` is an IPv4 or IPv6 address without a scope.  As in Kafka no range has 0.0.0.0.
    """
    bits, address = _address_of(client_host)
    return bits == hosts.bits and hosts.first <= address <= hosts.last


@lru_cache(maxsize=1024)  # A decision asks for each range, and a client mostly asks again.
def _address_of(client_host: str) -> tuple[int, int]:
    """Return the number of bits and the address of a client; (0, 0) if no range has it."""
    family = socket.AF_INET6 if ":" in client_host else socket.AF_INET
    try:
        packed = socket.inet_pton(family, client_host)
    except OSError:
        return 0, 0
    address = int.from_bytes(packed)
    if family == socket.AF_INET and not address:
        return 0, 0
    return len(packed) * 8, address


def _cannot_parse(text: str, why: str = "") -> InvalidRange:
    return InvalidRange(f"Could not parse [{text}]{why}")


def _parse_ipv4(host: str) -> tuple[int, int, int]:
    """Return the number of bits, the address and the prefix length.  Raises InvalidRange."""
    match = _IPV4_RANGE.fullmatch(host)
    if match is None:
        raise _cannot_parse(host)
    *octets, prefix_bits = map(int, match.groups())
    for value, most in (*((octet, 255) for octet in octets), (prefix_bits, _IPV4_BITS)):
        if value > most:
            raise InvalidRange(f"Value [{value}] not in range [0,{most}]")
    return _IPV4_BITS, int.from_bytes(bytes(octets)), prefix_bits


def _parse_ipv6(host: str) -> tuple[int, int, int]:
    """Return the number of bits, the address and the prefix length.  Raises InvalidRange."""
    text, _, length = host.partition("/")
    if not _PREFIX_LENGTH.fullmatch(length) or not -(2**31) <= int(length) < 2**31:
        raise _cannot_parse(host, " - invalid prefix length")
    prefix_bits = int(length)
    if not 0 <= prefix_bits <= _IPV6_BITS:
        raise _cannot_parse(host, f" - prefix length must be between 0 and {_IPV6_BITS}")
    address = _ipv6_address(text)
    if address is None:
        raise _cannot_parse(text)
    if address >> _IPV4_BITS == _IPV4_MAPPED:  # Java makes it an IPv4 address.
        raise _cannot_parse(text, " - not an IPv6 address")
    return _IPV6_BITS, address, prefix_bits


def _ipv6_address(text: str) -> int | None:
    """Return the number of an IPv6 address as Java writes or reads it, or None if it is none.

    It may be in brackets and have the number of a scope, which is ignored.
    """
    if text.startswith("["):
        if not text.endswith("]"):
            return None
        text = text[1:-1]
    text, percent, scope = text.partition("%")
    if percent and not _SCOPE.fullmatch(scope):
        return None  # Java asks the network interfaces of this machine for the name.
    # Java takes any number of leading zeros; inet_pton takes four digits, and none in IPv4.
    text = re.sub(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])", "", text)
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET6, text))
    except (OSError, ValueError):
        return None
