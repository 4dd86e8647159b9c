"""Findings about addresses, from what a machine found out about them."""

from __future__ import annotations

import pytest

from kwire.client.checkup.addresses import (
    NO_ANSWER,
    REFUSED,
    Addresses,
    ConnectAttempt,
    Reach,
    address_findings,
)
from kwire.client.checkup.finding import CheckGrade, ClusterFinding

REMOTE = Reach("kafka.example", 9092, attempts=(ConnectAttempt("192.0.2.7"),))
LOCAL = Reach("localhost", 9092, attempts=(ConnectAttempt("127.0.0.1"),), is_local=True)


def found(broker: Reach, bootstrap: Reach = REMOTE) -> list[ClusterFinding]:
    return list(address_findings(Addresses([bootstrap], {1: broker})))


def test_broker_that_can_be_reached_at_its_advertised_address_has_no_finding() -> None:
    assert found(REMOTE) == []
    assert found(LOCAL, LOCAL) == []


@pytest.mark.parametrize(
    ("host", "hint"),
    [
        ("0123456789ab", "the id of a container"),
        ("kafka", "known only inside of a container network"),
        ("kafka.example", "not known"),
    ],
)
def test_advertised_name_that_cannot_be_resolved_is_broken(host: str, hint: str) -> None:
    [each] = found(Reach(host, 9093, resolve_error="not known"))
    assert (each.grade, each.check, each.about) == (
        CheckGrade.BROKEN,
        "advertised-name",
        "broker 1",
    )
    assert f"it advertises {host}:9093" in each.says
    assert hint in each.says
    assert "advertised.listeners=PLAINTEXT://kafka.example:9093" in (each.remedy or "")


@pytest.mark.parametrize(
    ("is_own_machine", "grade"), [(True, CheckGrade.RISK), (False, CheckGrade.BROKEN)]
)
def test_loopback_is_advertised_to_clients_that_came_by_another_address(
    is_own_machine: bool, grade: CheckGrade
) -> None:
    came_by = Reach(
        "192.0.2.7", 9092, attempts=(ConnectAttempt("192.0.2.7"),), is_local=is_own_machine
    )
    [each] = found(LOCAL, came_by)
    assert (each.grade, each.check) == (grade, "advertised-loopback")
    assert "localhost:9092" in each.says
    assert "192.0.2.7:9092" in each.says


@pytest.mark.parametrize(
    ("error", "remedy"), [(REFUSED, "publish its port"), (NO_ANSWER, "firewall")]
)
def test_port_without_connection_is_broken_with_a_remedy_for_its_reason(
    error: str, remedy: str
) -> None:
    [each] = found(Reach("h.example", 9093, attempts=(ConnectAttempt("192.0.2.8", error),)))
    assert (each.grade, each.check) == (CheckGrade.BROKEN, "advertised-port")
    assert f"{error} at 192.0.2.8" in each.says
    assert remedy in (each.remedy or "")


def test_address_where_another_broker_answers_is_broken() -> None:
    [each] = found(
        Reach("h.example", 1, attempts=(ConnectAttempt("192.0.2.8"),), kafka_error="not broker 1")
    )
    assert (each.grade, each.check) == (CheckGrade.BROKEN, "advertised-broker")
    assert "not broker 1" in each.says


def test_name_with_an_address_that_does_not_answer_is_a_note() -> None:
    [each] = found(
        Reach(
            "h.example",
            1,
            attempts=(ConnectAttempt("2001:db8::1", REFUSED), ConnectAttempt("192.0.2.8")),
        )
    )
    assert (each.grade, each.check) == (CheckGrade.NOTE, "advertised-some")
    assert "2001:db8::1 (connection refused)" in each.says


@pytest.mark.parametrize(("seconds", "checks"), [(0.9, []), (1.0, ["slow-dns"])])
def test_name_that_takes_long_to_resolve_is_a_note(seconds: float, checks: list[str]) -> None:
    broker = Reach("h.example", 1, resolve_s=seconds, attempts=(ConnectAttempt("192.0.2.8"),))
    assert [each.check for each in found(broker)] == checks


def test_address_that_two_brokers_advertise_is_broken() -> None:
    seen = Addresses([REMOTE], {1: REMOTE, 2: REMOTE, 3: REMOTE})
    [each] = address_findings(seen)
    assert (each.grade, each.about) == (CheckGrade.BROKEN, "brokers 1, 2, 3")


@pytest.mark.parametrize(
    ("server", "check"),
    [
        (Reach("no.example", 1, resolve_error="not known"), "bootstrap-name"),
        (Reach("h", 1, attempts=(ConnectAttempt("192.0.2.8", REFUSED),)), "bootstrap-port"),
        (
            Reach("h", 1, attempts=(ConnectAttempt("192.0.2.8"),), kafka_error="TLS"),
            "bootstrap-protocol",
        ),
    ],
)
def test_bootstrap_server_that_fails_is_broken_alone_and_a_risk_beside_others(
    server: Reach, check: str
) -> None:
    [alone] = address_findings(Addresses([server]))
    [beside] = address_findings(Addresses([server, REMOTE]))
    assert (alone.check, beside.check) == (check, check)
    assert (alone.grade, beside.grade) == (CheckGrade.BROKEN, CheckGrade.RISK)


def test_ipv6_loopback_with_a_zone_is_loopback() -> None:
    assert Reach("h", 1, attempts=(ConnectAttempt("::1"),)).is_loopback
    assert not Reach("h", 1, attempts=(ConnectAttempt("fe80::1%eth0"),)).is_loopback
    assert not Reach("h", 1).is_loopback
