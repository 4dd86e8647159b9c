"""What a machine finds out about an address, with a network of the test's own."""

from __future__ import annotations

import socket

from kwire.client.checkup.addresses import ConnectAttempt
from kwire.client.checkup.reaching import ADDRESSES_MAX, SystemNetwork, reach, reach_all
from kwire.client.errors import BrokerUnreachable
from kwire.testing.hosting.ports import free_port


class SomeNetwork:
    """Names with addresses, of which some refuse connections."""

    def __init__(self, names: dict[str, list[str]], refusing: set[str]) -> None:
        self.names = names
        self.refusing = refusing

    def resolve(self, host: str) -> list[str]:
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.names[host]

    def connect(self, ip: str, port: int, timeout_s: float) -> None:
        if ip in self.refusing:
            raise ConnectionRefusedError(111, "Connection refused")

    def is_own(self, ip: str) -> bool:
        return ip.startswith("127.")


NETWORK = SomeNetwork({"h": ["192.0.2.1", "127.0.0.1"], "down": ["192.0.2.1"]}, {"192.0.2.1"})


def greet() -> None:
    """A broker that answers."""


def refuse() -> None:
    raise BrokerUnreachable("it expects TLS")


def test_reach_has_each_address_with_its_error() -> None:
    found = reach("h", 9092, greet, NETWORK, 1)
    assert found.attempts == (
        ConnectAttempt("192.0.2.1", "connection refused"),
        ConnectAttempt("127.0.0.1"),
    )
    assert found.is_local
    assert found.kafka_error is None


def test_reach_of_an_unknown_name_has_the_resolvers_message() -> None:
    found = reach("nobody", 9092, greet, NETWORK, 1)
    assert found.resolve_error == "name or service not known"
    assert not found.connects


def test_reach_greets_only_if_a_connection_can_be_made() -> None:
    assert reach("h", 9092, refuse, NETWORK, 1).kafka_error == "it expects TLS"
    assert reach("down", 9092, refuse, NETWORK, 1).kafka_error is None


def test_reach_tries_a_limited_number_of_addresses() -> None:
    many = SomeNetwork({"h": [f"192.0.2.{n}" for n in range(99)]}, set())
    assert len(reach("h", 1, greet, many, 1).attempts) == ADDRESSES_MAX


def test_reach_all_keeps_the_order_of_the_targets() -> None:
    targets = [(host, 1, greet) for host in ("down", "nobody", "h")]
    assert [each.host for each in reach_all(targets, NETWORK, 1)] == ["down", "nobody", "h"]
    assert reach_all([], NETWORK, 1) == []


def test_system_network_knows_the_addresses_of_this_machine() -> None:
    system = SystemNetwork()
    assert system.is_own("127.0.0.1")
    assert not system.is_own("192.0.2.1")  # RFC 5737: for documentation only
    assert "127.0.0.1" in system.resolve("127.0.0.1")
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert reach("127.0.0.1", port, greet, system, 60).connects
    assert not reach("127.0.0.1", port, greet, system, 60).connects
