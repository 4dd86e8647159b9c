"""The messages and warnings about the addresses that a broker advertises."""

from __future__ import annotations

import pytest

from kwire.cli.hosting import advertised
from kwire.cli.hosting.advertised import listener_lines, warnings
from kwire.settings import load


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that knows three names and nothing else."""
    addresses = {
        "localhost": ["127.0.0.1", "::1"],
        "127.0.0.1": ["127.0.0.1"],
        "kafka.example": ["10.0.0.7"],
    }
    monkeypatch.setattr(advertised, "resolved", addresses.get)


def messages_of(
    listeners: str, advertised_listeners: str | None = None
) -> tuple[list[str], list[str]]:
    """(lines about listeners, warnings) of a broker with these settings."""
    settings = {"listeners": listeners, "node.id": "1"}
    if advertised_listeners is not None:
        settings["advertised.listeners"] = advertised_listeners
    config = load(overrides=settings)
    return list(listener_lines(config)), list(warnings(config))


def test_listener_on_localhost_advertises_itself_without_a_warning() -> None:
    lines, warned = messages_of("PLAINTEXT://localhost:9092")
    assert lines == ["PLAINTEXT listens on localhost:9092 and advertises the same address"]
    assert warned == []


def test_listener_on_all_interfaces_with_a_resolvable_name_gives_no_warning() -> None:
    lines, warned = messages_of("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://kafka.example:9092")
    assert lines == [
        "PLAINTEXT listens on 0.0.0.0:9092 and advertises kafka.example:9092",
    ]
    assert warned == []


def test_listener_on_all_interfaces_that_advertises_localhost_gives_a_warning() -> None:
    _, (warning,) = messages_of("PLAINTEXT://:9092", "PLAINTEXT://localhost:9092")
    assert "PLAINTEXT listens on all interfaces but advertises localhost:9092" in warning


def test_unresolvable_advertised_name_gives_a_warning() -> None:
    _, (warning,) = messages_of("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://nobody.example:9092")
    assert warning.startswith(
        "PLAINTEXT advertises nobody.example:9092, and this machine cannot resolve that name"
    )


def test_default_host_name_on_all_interfaces_gives_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kwire.settings.broker.own_host_name", lambda: "kafka.example")
    lines, (warning,) = messages_of("PLAINTEXT://:9092")
    assert lines == ["PLAINTEXT listens on *:9092 and advertises kafka.example:9092"]
    assert "set advertised.listeners if clients cannot resolve it" in warning


def test_listener_that_is_not_advertised_is_reported() -> None:
    config = load(
        overrides={
            "listeners": "PLAINTEXT://localhost:9092,INTERNAL://localhost:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        }
    )
    assert list(listener_lines(config))[1] == (
        "INTERNAL listens on localhost:9093 and advertises no address"
    )
