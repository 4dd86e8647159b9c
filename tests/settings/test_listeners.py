"""Parsing of listeners.  The expected results are those of KafkaConfig in Apache Kafka 4.3.1."""

from __future__ import annotations

import socket

import pytest

from kwire.settings import BrokerConfig, ConfigError
from kwire.settings.listeners import own_host_name

EXT = "PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT"


def endpoints(config: BrokerConfig) -> list[tuple[str, str, int]]:
    return [(each.listener, each.host, each.port) for each in config.listeners]


@pytest.mark.parametrize(
    ("listeners", "expected"),
    [
        ("plaintext://h:9092", [("PLAINTEXT", "h", 9092)]),
        ("PLAINTEXT://[::1]:9092", [("PLAINTEXT", "::1", 9092)]),
        ("PLAINTEXT://::1:9092", [("PLAINTEXT", "::1", 9092)]),
        ("PLAINTEXT://a_b:9092", [("PLAINTEXT", "a_b", 9092)]),
        ("PLAINTEXT://:0", [("PLAINTEXT", "", 0)]),
        ("PLAINTEXT://:0,EXT://:0", [("PLAINTEXT", "", 0), ("EXT", "", 0)]),
        ("PLAINTEXT://[fe80::1%lo]:9092", [("PLAINTEXT", "fe80::1%lo", 9092)]),
        (
            "PLAINTEXT://127.0.0.1:9092,EXT://[::1]:9092",
            [("PLAINTEXT", "127.0.0.1", 9092), ("EXT", "::1", 9092)],
        ),
    ],
)
def test_listeners_are_parsed_into_endpoints(
    listeners: str, expected: list[tuple[str, str, int]]
) -> None:
    config = BrokerConfig({"listeners": listeners, "listener.security.protocol.map": EXT})
    assert endpoints(config) == expected


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"listeners": "PLAINTEXT://localhost"}, "is not LISTENER://host:port"),
        ({"listeners": "PLAINTEXT:9092"}, "is not LISTENER://host:port"),
        ({"listeners": "PLAINTEXT://:99999"}, "is not between 0 and 65535"),
        ({"listeners": "FOO://:9092"}, "No security protocol defined for listener FOO"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "must have a different name"),
        (
            {"listeners": "PLAINTEXT://:1,EXT://:1", "listener.security.protocol.map": EXT},
            "must have a different port: PLAINTEXT and EXT both have 1",
        ),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.1:1,EXT://127.0.0.2:1",
                "listener.security.protocol.map": EXT,
            },
            "must have a different port",
        ),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable meta-address 0.0.0.0"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable meta-address"),
        ({"advertised.listeners": "PLAINTEXT://[::]:9092"}, "nonroutable meta-address"),
        ({"advertised.listeners": "SSL://h:9092"}, "Found SSL. The valid options .* PLAINTEXT"),
        ({"advertised.listeners": "PLAINTEXT://h:1,PLAINTEXT://g:1"}, "a different name"),
        ({"listener.security.protocol.map": "PLAINTEXT:FOO"}, "Invalid security protocol `FOO`"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "is not LISTENER:PROTOCOL"),
        ({"inter.broker.listener.name": "EXT"}, "inter.broker.listener.name must be"),
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "Only one of",
        ),
        (
            {"controller.listener.names": "PLAINTEXT"},
            "no listener for clients",
        ),
    ],
)
def test_invalid_listeners_raise_config_error(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        BrokerConfig(settings)


def test_listeners_are_advertised_by_default() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://broker-1:9092"})
    assert config.advertised_listeners == config.listeners
    assert config.inter_broker_listener == "PLAINTEXT"


def test_two_listeners_may_advertise_the_same_port() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,EXT://:9094",
            "listener.security.protocol.map": EXT,
            "advertised.listeners": "PLAINTEXT://inside:9092,EXT://outside:9092",
            "inter.broker.listener.name": "plaintext",
        }
    )
    assert [(e.host, e.port) for e in config.advertised_listeners] == [
        ("inside", 9092),
        ("outside", 9092),
    ]
    assert config.inter_broker_listener == "PLAINTEXT"


def test_listener_on_all_interfaces_advertises_the_host_name() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://:9092"})
    assert config.advertised_listeners[0].host == own_host_name()


def test_own_host_name_is_localhost_if_the_name_cannot_be_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "no-such-host.invalid")
    assert own_host_name() == "localhost"


def test_controller_listener_needs_no_security_protocol_without_a_map() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://h:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert endpoints(config) == [("PLAINTEXT", "h", 9092)]


def test_with_bound_ports_advertises_the_ports_that_the_kernel_chose() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://localhost:0"})
    bound = config.with_bound_ports({"PLAINTEXT": 4711})
    assert bound.listeners[0].port == bound.advertised_listeners[0].port == 4711
    assert config.listeners[0].port == 0
