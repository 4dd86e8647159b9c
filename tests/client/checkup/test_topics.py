"""Findings about the replicas and configs of topics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kwire.client.checkup.finding import CheckGrade, ClusterFinding
from kwire.client.checkup.topics import ClusterFacts, TopicFacts, topic_findings

ONE = ClusterFacts(brokers=1, racks=1, offsets_retention_ms=1000)
THREE = ClusterFacts(brokers=3, racks=2, offsets_retention_ms=1000)
HEALTHY = {
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "retention.ms": "1000",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
}
ONE_IN_SYNC = {"min.insync.replicas": "1"}


def topic(
    copies: int = 3,
    configs: Mapping[str, str] | None = None,
    *,
    name: str = "t",
    internal: bool = False,
) -> TopicFacts:
    return TopicFacts(name, internal, copies, 2, {**HEALTHY, **(configs or {})})


def found(*topics: TopicFacts, cluster: ClusterFacts = THREE) -> list[ClusterFinding]:
    return list(topic_findings(topics, cluster))


def test_topic_with_three_replicas_in_two_racks_has_no_finding() -> None:
    assert found(topic()) == []


def test_one_replica_is_a_risk_in_a_cluster_only() -> None:
    single = topic(1, ONE_IN_SYNC)
    [each] = found(single)
    assert (each.grade, each.check, each.about) == (CheckGrade.RISK, "one-replica", "topic t")
    assert each.remedy == "kwire cluster reassign t -r 3"
    assert found(single, cluster=ONE) == []


def test_one_replica_of_an_internal_topic_names_what_stops() -> None:
    [each] = found(topic(1, ONE_IN_SYNC, name="__consumer_offsets", internal=True))
    assert "groups and transactions need __consumer_offsets" in each.says


@pytest.mark.parametrize(
    ("copies", "min_isr", "check"),
    [
        (2, "3", "min-isr-above-replicas"),
        (2, "2", "min-isr-is-replicas"),
        (3, "1", "min-isr-1"),
        (3, "2", None),
        (2, "1", None),
    ],
)
def test_min_isr_is_compared_with_the_number_of_replicas(
    copies: int, min_isr: str, check: str | None
) -> None:
    checks = [each.check for each in found(topic(copies, {"min.insync.replicas": min_isr}))]
    assert checks == ([] if check is None else [check])


def test_min_isr_2_of_a_topic_with_one_replica_is_a_risk_on_one_broker_too() -> None:
    [each] = found(topic(1), cluster=ONE)
    assert each.check == "min-isr-above-replicas"


def test_replicas_in_one_of_two_racks_are_a_risk() -> None:
    together = TopicFacts("t", False, 3, 1, HEALTHY)
    assert [each.check for each in found(together)] == ["one-rack"]
    one_rack = ClusterFacts(brokers=3, racks=1)
    assert found(together, cluster=one_rack) == []


def test_unclean_elections_are_a_risk_where_there_are_several_brokers() -> None:
    unclean = topic(3, {"unclean.leader.election.enable": "true"})
    [each] = found(unclean)
    assert (each.grade, each.check) == (CheckGrade.RISK, "unclean-election")
    assert each.remedy == "kwire topics alter t --set unclean.leader.election.enable=false"


@pytest.mark.parametrize(
    ("configs", "checks"),
    [
        ({"retention.ms": "1001"}, ["offsets-expire-first"]),
        ({"retention.ms": "-1"}, ["endless-retention", "offsets-expire-first"]),
        ({"retention.ms": "-1", "retention.bytes": "9"}, ["offsets-expire-first"]),
        ({"retention.ms": "-1", "cleanup.policy": "compact"}, []),
    ],
)
def test_retention_is_compared_with_that_of_committed_offsets(
    configs: dict[str, str], checks: list[str]
) -> None:
    assert [each.check for each in found(topic(3, configs))] == checks


def test_message_that_no_request_can_carry_is_a_risk() -> None:
    small = ClusterFacts(brokers=1, racks=1, request_bytes_max=1_000_000)
    [each] = found(topic(), cluster=small)
    assert (each.grade, each.check) == (CheckGrade.RISK, "message-above-request")


def test_finding_counts_all_topics_and_names_some_in_a_command_to_paste() -> None:
    topics = [topic(1, ONE_IN_SYNC, name=f"t {n}") for n in range(9)]
    [each] = found(*topics)
    assert each.about.startswith("9 topics, such as t 0, t 1")
    assert each.remedy == "kwire cluster reassign 't 0' 't 1' 't 2' 't 3' 't 4' ... -r 3"


def test_topic_without_reported_configs_has_no_finding_about_them() -> None:
    assert found(TopicFacts("t", replication_factor=3, racks_min=2)) == []
