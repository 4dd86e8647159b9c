"""What is said of the addresses that clients are told."""

from __future__ import annotations

import pytest

from kwire.cli import advertised
from kwire.cli.advertised import listener_lines, warnings
from kwire.settings import load


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that knows three names, whatever the machine's knows."""
    known = {
        "localhost": ["127.0.0.1", "::1"],
        "127.0.0.1": ["127.0.0.1"],
        "kafka.example": ["10.0.0.7"],
    }
    monkeypatch.setattr(advertised, "resolved", known.get)


def said(listeners: str, told: str | None = None) -> tuple[list[str], list[str]]:
    settings = {"listeners": listeners, "node.id": "1"}
    if told is not None:
        settings["advertised.listeners"] = told
    config = load(overrides=settings)
    return list(listener_lines(config)), list(warnings(config))


def test_one_machine() -> None:
    lines, warned = said("PLAINTEXT://localhost:9092")
    assert lines == ["PLAINTEXT listens on localhost:9092, and clients are told so"]
    assert warned == []


def test_everywhere_with_a_name_that_resolves() -> None:
    lines, warned = said("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://kafka.example:9092")
    assert lines == [
        "PLAINTEXT listens on 0.0.0.0:9092; clients are told kafka.example:9092",
    ]
    assert warned == []


def test_everywhere_but_clients_are_sent_to_themselves() -> None:
    _, (warning,) = said("PLAINTEXT://:9092", "PLAINTEXT://localhost:9092")
    assert "clients in other containers or on other machines will look" in warning


def test_a_name_nobody_knows() -> None:
    _, (warning,) = said("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://nobody.example:9092")
    assert warning.startswith(
        "clients of PLAINTEXT are told nobody.example:9092, and that name cannot be resolved"
    )


def test_this_hosts_name_is_told_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.settings.broker.own_host_name", lambda: "kafka.example")
    lines, (warning,) = said("PLAINTEXT://:9092")
    assert lines == ["PLAINTEXT listens on *:9092; clients are told kafka.example:9092"]
    assert "clients that cannot resolve it need advertised.listeners" in warning


def test_a_listener_that_is_not_advertised() -> None:
    config = load(
        overrides={
            "listeners": "PLAINTEXT://localhost:9092,INTERNAL://localhost:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        }
    )
    assert list(listener_lines(config))[1] == (
        "INTERNAL listens on localhost:9093; its clients are told of no broker"
    )
