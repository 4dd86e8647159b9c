"""Findings about the settings of brokers."""

from __future__ import annotations

import pytest

from kwire.client.checkup.brokers import (
    BrokerFacts,
    broker_findings,
    offsets_retention_ms,
    request_bytes_max,
)
from kwire.client.checkup.finding import CheckGrade, ClusterFinding

HEALTHY = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "offsets.retention.minutes": "10080",
    "socket.request.max.bytes": "104857600",
    "offsets.topic.replication.factor": "3",
}


def broker(
    number: int = 1, *, rack: str | None = "a", explicit: str = "", **settings: str
) -> BrokerFacts:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerFacts(number, {**HEALTHY, **named}, rack, frozenset(explicit.split()))


def found(*brokers: BrokerFacts, count: int = 3, topics: str = "") -> list[ClusterFinding]:
    return list(broker_findings(list(brokers), count, frozenset(topics.split())))


def test_brokers_with_the_same_sensible_settings_have_no_finding() -> None:
    assert found(broker(1), broker(2), broker(3)) == []


def test_automatic_creation_is_a_note() -> None:
    [each] = found(broker(1, auto_create_topics_enable="true"))
    assert (each.grade, each.check, each.about) == (CheckGrade.NOTE, "auto-create", "broker 1")


def test_one_replica_by_default_is_a_risk_in_a_cluster_only() -> None:
    single = broker(default_replication_factor="1")
    assert [each.check for each in found(single)] == ["default-one-replica"]
    assert found(single, count=1, topics="__consumer_offsets") == []


@pytest.mark.parametrize(
    ("explicit", "grade"),
    [("offsets.topic.replication.factor", CheckGrade.BROKEN), ("", CheckGrade.NOTE)],
)
def test_internal_topic_that_needs_more_brokers_than_there_are(
    explicit: str, grade: CheckGrade
) -> None:
    """kwire lowers a default, but not what somebody has set."""
    [each] = found(broker(explicit=explicit), count=1)
    assert (each.grade, each.check) == (grade, "internal-replicas")
    assert "offsets.topic.replication.factor=3, and there is 1 broker" in each.says
    assert found(broker(explicit=explicit), count=1, topics="__consumer_offsets") == []


def test_setting_that_differs_between_brokers_names_values_and_brokers() -> None:
    [each] = found(broker(1), broker(2, message_max_bytes="1"), broker(3, message_max_bytes="2"))
    assert (each.grade, each.check) == (CheckGrade.RISK, "different-settings")
    assert "message.max.bytes is 1 on broker 2; 2 on broker 3" in each.says


@pytest.mark.parametrize(("minutes", "checks"), [("1439", ["short-offsets"]), ("1440", [])])
def test_committed_offsets_kept_for_less_than_a_day_are_a_risk(
    minutes: str, checks: list[str]
) -> None:
    assert [each.check for each in found(broker(offsets_retention_minutes=minutes))] == checks


def test_broker_without_a_rack_among_brokers_with_racks_is_a_note() -> None:
    [each] = found(broker(1), broker(2, rack=None))
    assert (each.grade, each.check, each.about) == (CheckGrade.NOTE, "rack-missing", "broker 2")
    assert found(broker(1, rack=None), broker(2, rack=None)) == []


def test_limits_are_those_of_the_strictest_broker() -> None:
    brokers = [
        broker(1, offsets_retention_minutes="2", socket_request_max_bytes="9"),
        broker(2, offsets_retention_minutes="1", socket_request_max_bytes="10"),
    ]
    assert offsets_retention_ms(brokers) == 60_000
    assert request_bytes_max(brokers) == 9
    assert offsets_retention_ms([BrokerFacts(1)]) is None
    assert request_bytes_max([]) is None
