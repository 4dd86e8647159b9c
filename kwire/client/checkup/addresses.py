"""Findings about addresses: bootstrap servers, and those that brokers advertise.  No I/O.

A client connects to a bootstrap server, gets the advertised address of each broker, and uses only
these from then on.  So a broker works for a client only if the client can resolve and reach the
advertised address.  The facts are those of the machine on which the check runs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwire.client.checkup.finding import CheckGrade, ClusterFinding
from kwire.client.connection import address_text

SLOW_RESOLUTION_S: Final = 1.0
"""A client resolves each name again at each new connection, while its requests wait."""
CONTAINER_ID: Final = re.compile(r"[0-9a-f]{12}")
"""The host name that a container gets if nobody gives it one."""
REFUSED: Final = "connection refused"
NO_ANSWER: Final = "no answer in time"


@dataclass(frozen=True, slots=True)
class ConnectAttempt:
    """A TCP connection to one of a host's addresses, and the error if it failed."""

    ip: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """What this machine found out about a host and a port."""

    host: str
    port: int
    resolve_error: str | None = None
    resolve_s: float = 0.0
    attempts: tuple[ConnectAttempt, ...] = ()
    """One for each address of the host, in the order of the resolver."""
    is_local: bool = False
    """Whether an address of the host is one of this machine's."""
    kafka_error: str | None = None
    """Why the Kafka protocol did not work although a connection was made."""

    @property
    def address(self) -> str:
        return address_text(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether all addresses of the host are loopback addresses."""
        return bool(self.attempts) and all(_is_loopback(each.ip) for each in self.attempts)

    @property
    def connects(self) -> bool:
        return any(each.error is None for each in self.attempts)


def _is_loopback(ip: str) -> bool:
    return ipaddress.ip_address(ip.partition("%")[0]).is_loopback


@dataclass(frozen=True, slots=True)
class Addresses:
    """The bootstrap servers, and the brokers by id, as this machine reaches them."""

    bootstrap: Sequence[Reach]
    brokers: dict[int, Reach] = field(default_factory=dict)
    protocol: str = "PLAINTEXT"
    """The security protocol of the listener that was asked."""

    @property
    def first_answering(self) -> Reach | None:
        """The first bootstrap server that works, which has said what the brokers advertise."""
        working = (each for each in self.bootstrap if each.connects and each.kafka_error is None)
        return next(working, None)


def address_findings(seen: Addresses) -> Iterator[ClusterFinding]:
    """Yield the findings about bootstrap servers, then those about brokers."""
    for server in seen.bootstrap:
        # Without any answer nothing works; otherwise clients use the other servers.
        grade = CheckGrade.BROKEN if seen.first_answering is None else CheckGrade.RISK
        yield from _server_findings(server, grade)
    for broker_id, reach in sorted(seen.brokers.items()):
        yield from _broker_findings(broker_id, reach, seen)
    yield from _shared_findings(seen)


def _server_findings(server: Reach, grade: CheckGrade) -> Iterator[ClusterFinding]:
    about = f"bootstrap server {server.address}"
    if server.resolve_error is not None:
        yield ClusterFinding(
            grade,
            "bootstrap-name",
            about,
            f"this machine cannot resolve {server.host}: {server.resolve_error}"
            f"{_hint_at_name(server.host)}",
            f"getent hosts {server.host}",
        )
    elif not server.connects:
        yield ClusterFinding(
            grade,
            "bootstrap-port",
            about,
            f"no connection: {_reasons(server)}",
            _remedy_of_port(server),
        )
    elif server.kafka_error is not None:
        yield ClusterFinding(
            grade,
            "bootstrap-protocol",
            about,
            f"the port answers, but a Kafka client cannot use it: {server.kafka_error}",
            "name a Kafka listener by -b, and its security.protocol in the --command-config file",
        )


def _broker_findings(broker_id: int, reach: Reach, seen: Addresses) -> Iterator[ClusterFinding]:
    """Yield at most one finding that says why clients cannot use the broker's advertised address,
    and notes about what makes it slow or fragile."""
    about = f"broker {broker_id}"
    advertises = f"it advertises {reach.address}"
    first = seen.first_answering
    if reach.resolve_error is not None:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "advertised-name",
            about,
            f"{advertises}, and this machine cannot resolve {reach.host}: {reach.resolve_error}"
            f"{_hint_at_name(reach.host)}",
            _advertise(broker_id, reach, seen),
        )
        return
    if reach.is_loopback and first is not None and not first.is_loopback:
        # On the broker's own machine the address works, but only there.
        grade = CheckGrade.RISK if first.is_local else CheckGrade.BROKEN
        yield ClusterFinding(
            grade,
            "advertised-loopback",
            about,
            f"{advertises}, which every client takes for its own machine or container; this"
            f" client has found the cluster at {first.address}",
            _advertise(broker_id, reach, seen),
        )
        return
    if not reach.connects:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "advertised-port",
            about,
            f"{advertises}, and there is no connection: {_reasons(reach)}",
            _remedy_of_port(reach),
        )
    elif reach.kafka_error is not None:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "advertised-broker",
            about,
            f"{advertises}, where this client cannot use it: {reach.kafka_error}",
            _advertise(broker_id, reach, seen),
        )
    yield from _fragile(about, reach)


def _fragile(about: str, reach: Reach) -> Iterator[ClusterFinding]:
    """Yield notes about an address that works, but not always or not quickly."""
    failed = [each for each in reach.attempts if each.error is not None]
    if reach.connects and failed:
        texts = ", ".join(f"{each.ip} ({each.error})" for each in failed)
        yield ClusterFinding(
            CheckGrade.NOTE,
            "advertised-some",
            about,
            f"{reach.host} has {len(reach.attempts)} addresses, of which these do not answer:"
            f" {texts}; a client may try them first",
            "listen on all of them, or advertise an address instead of the name",
        )
    if reach.resolve_s >= SLOW_RESOLUTION_S:
        yield ClusterFinding(
            CheckGrade.NOTE,
            "slow-dns",
            about,
            f"to resolve {reach.host} took {reach.resolve_s:.1f} s, which delays every new"
            " connection",
            f"time getent hosts {reach.host}",
        )


def _shared_findings(seen: Addresses) -> Iterator[ClusterFinding]:
    """Yield a finding for each address that several brokers advertise."""
    by_address: dict[str, list[int]] = {}
    for broker_id, reach in sorted(seen.brokers.items()):
        by_address.setdefault(reach.address, []).append(broker_id)
    for address, ids in by_address.items():
        if len(ids) > 1:
            brokers = ", ".join(map(str, ids))
            yield ClusterFinding(
                CheckGrade.BROKEN,
                "advertised-shared",
                f"brokers {brokers}",
                f"all of them advertise {address}, so clients reach only one of them",
                "give each broker an address of its own in advertised.listeners",
            )


def _hint_at_name(host: str) -> str:
    """A hint at where the name comes from, for names that are usual in containers."""
    if CONTAINER_ID.fullmatch(host):
        return "; it is the id of a container, which no other machine knows"
    if "." not in host and ":" not in host:
        return (
            "; a name without a domain is often known only inside of a container network"
            " (a service of a compose file, a pod)"
        )
    return ""


def _reasons(reach: Reach) -> str:
    """The errors of all addresses, each address once."""
    return ", ".join(f"{each.error} at {each.ip}" for each in reach.attempts)


def _remedy_of_port(reach: Reach) -> str:
    """What to do about a port to which no connection is made."""
    errors = {each.error for each in reach.attempts}
    if errors == {REFUSED}:
        return (
            f"start the broker, or publish its port (docker run -p {reach.port}:{reach.port});"
            f" `ss -ltn sport = :{reach.port}` on its machine shows whether it listens"
        )
    if errors == {NO_ANSWER}:
        return (
            f"open port {reach.port} in the firewall or security group between this machine and"
            f" {reach.host}"
        )
    return f"nc -vz {reach.host} {reach.port}"


def _advertise(broker_id: int, reach: Reach, seen: Addresses) -> str:
    """How to change the address that a broker advertises, with one that this client can reach if
    there is any."""
    first = seen.first_answering
    host = "HOST" if first is None or first.is_loopback else first.host
    listener = f"{seen.protocol}://{address_text(host, reach.port)}"
    return (
        f"restart broker {broker_id} with advertised.listeners={listener} (in a container:"
        f" KAFKA_ADVERTISED_LISTENERS={listener}); clients inside and outside of a container"
        " network need a listener each"
    )
