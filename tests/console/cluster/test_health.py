"""What is not well, why, and what to do."""

from __future__ import annotations

import pytest

from kwire.client.cluster import Cluster, ClusterNode, TopicPartition
from kwire.client.errors import BrokerUnreachable, Misuse
from kwire.client.inspection.health import health_of
from kwire.client.inspection.survey import BrokerReport, Sizes, Survey
from kwire.client.topics import create_topic
from kwire.codecs.messages.metadata import MetadataResponsePartition
from kwire.console.cluster.health import (
    NOTE,
    SERIOUS,
    WARNING,
    HealthPage,
    broker_page,
    cluster_health,
    findings_of,
    problem_rows,
)


def partition(leader: int, replicas: list[int], isr: list[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=5, replica_nodes=replicas, isr_nodes=isr
    )


def surveyed(
    states: dict[str, MetadataResponsePartition], reports: dict[int, BrokerReport]
) -> Survey:
    nodes = {node: ClusterNode(node, "localhost", 9000 + node) for node in reports}
    return Survey(
        "cluster",
        1,
        nodes,
        {TopicPartition(topic, 0): state for topic, state in states.items()},
        reports,
        {topic: 2 for topic in states},
    )


def test_absent_broker_is_the_reason_of_offline_and_under_replicated_partitions() -> None:
    survey = surveyed(
        {
            "a": partition(1, [1, 2], [1]),
            "b": partition(-1, [2], [2]),
            "c": partition(1, [1, 3], [1]),
        },
        {
            1: BrokerReport(Sizes({}, []), end_offsets={TopicPartition("c", 0): 50}),
            3: BrokerReport(Sizes({}, []), end_offsets={TopicPartition("c", 0): 20}),
        },
    )
    health = health_of(survey)
    rows = {row.partition.topic: row for row in problem_rows(survey, health)}
    assert rows["b"].problems == ["offline"]
    assert rows["a"].reasons == ["broker 2 is absent"]
    assert rows["c"].reasons == ["broker 3 is 30 records behind"]
    assert rows["a"].missing == [2]
    found = findings_of(health, list(rows.values()))
    [absent] = [each for each in found if each.what.startswith("Broker 2: ")]
    assert "kwire cluster reassign --off 2" in absent.remedy
    [offline] = [each for each in found if "no leader" in each.what]
    assert (offline.severity, offline.partitions) == (SERIOUS, [TopicPartition("b", 0)])
    assert offline.words == ("cluster", "elect", "--all", "--unclean")
    [below] = [each for each in found if "min.insync.replicas" in each.what]
    assert below.partitions == [TopicPartition("a", 0), TopicPartition("c", 0)]
    assert below.why == "broker 2 is absent; broker 3 is 30 records behind"


def test_under_replicated_partitions_are_a_warning_and_the_cluster_is_not_well() -> None:
    survey = surveyed({"a": partition(1, [1, 2, 3], [1, 2])}, {})
    health = health_of(survey)
    rows = list(problem_rows(survey, health))
    [under] = [each for each in findings_of(health, rows) if each.words[-1:] == ("--watch",)]
    assert (under.severity, under.partitions) == (WARNING, [TopicPartition("a", 0)])
    assert not HealthPage(health, [], rows).is_well


def test_failed_directory_and_silent_broker_are_findings_with_their_reasons() -> None:
    survey = surveyed(
        {"a": partition(1, [1], [1])},
        {
            1: BrokerReport(Sizes({}, ["/data/lost"])),
            2: BrokerReport(trouble=BrokerUnreachable("localhost:9002 refused the connection")),
        },
    )
    health = health_of(survey)
    whats = [each.what for each in findings_of(health, [])]
    assert (
        "Broker 2: it does not answer as it should: localhost:9002 refused the connection" in whats
    )
    assert any(what.startswith("Broker 1: the log directory /data/lost") for what in whats)


def test_leader_that_is_not_preferred_is_a_note_only() -> None:
    survey = surveyed(
        {"a": partition(2, [1, 2], [1, 2])},
        {1: BrokerReport(Sizes({}, [])), 2: BrokerReport(Sizes({}, []))},
    )
    health = health_of(survey)
    [finding] = findings_of(health, list(problem_rows(survey, health)))
    assert (finding.severity, finding.words) == (NOTE, ("cluster", "elect", "--all"))


def test_healthy_broker_has_no_findings_and_a_page_with_its_replicas(
    cluster: Cluster, unique: str
) -> None:
    create_topic(cluster, unique, partitions=2)
    page = cluster_health(cluster)
    assert page.is_well
    [broker] = page.health.brokers
    shown = broker_page(cluster, broker.broker)
    own = [held for held in shown.replicas if held.partition.topic == unique]
    assert [(held.is_leader, held.is_in_sync, held.lag) for held in own] == [(True, True, 0)] * 2
    with pytest.raises(Misuse, match="the cluster has no broker 77"):
        broker_page(cluster, 77)
