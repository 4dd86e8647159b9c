"""Findings about the state of a cluster, from its health."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.client.checkup.finding import CheckGrade, ClusterFinding
from kwire.client.checkup.state import readiness_findings, state_findings
from kwire.client.cluster import TopicPartition
from kwire.client.inspection.health import BrokerHealth, ClusterHealth
from kwire.codecs.volumes import Volume

GIB = 1024**3
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def health(
    *brokers: BrokerHealth,
    offline: Sequence[TopicPartition] = (),
    under_min_isr: Sequence[TopicPartition] = (),
    under_replicated: Sequence[TopicPartition] = (),
    not_preferred: Sequence[TopicPartition] = (),
) -> ClusterHealth:
    """A cluster of ten partitions."""
    return ClusterHealth(
        "id", 1, 1, 10, list(brokers), list(offline), list(under_min_isr), list(under_replicated),
        list(not_preferred), reassignments=None, lags=[],
    )  # fmt: skip


def found(given: ClusterHealth, unreachable: frozenset[int] = frozenset()) -> list[ClusterFinding]:
    return list(state_findings(given, unreachable))


def test_healthy_cluster_has_no_finding() -> None:
    assert found(health(BrokerHealth(1, "h:1", None))) == []


def test_cluster_without_controller_is_broken() -> None:
    given = health()
    given.controller_id = -1
    assert [(each.check, each.grade) for each in found(given)] == [
        ("no-controller", CheckGrade.BROKEN)
    ]


def test_absent_broker_is_broken_and_says_how_many_replicas_it_has() -> None:
    [each] = found(health(BrokerHealth(2, None, None, replicas=7)))
    assert (each.check, each.grade, each.about) == ("absent-broker", CheckGrade.BROKEN, "broker 2")
    assert "7 replicas" in each.says


def test_broker_with_a_finding_about_its_address_has_no_second_one() -> None:
    given = health(BrokerHealth(2, "h:1", None, trouble="cannot connect"))
    assert [each.check for each in found(given)] == ["silent-broker"]
    assert found(given, frozenset({2})) == []


def test_broker_that_says_that_it_is_not_ready_is_broken_with_its_reasons() -> None:
    [each] = readiness_findings(1, "http://h:1", ["it starts", "no controller"])
    assert (each.check, each.grade) == ("not-ready", CheckGrade.BROKEN)
    assert each.says.endswith("it starts; no controller")
    assert list(readiness_findings(1, "http://h:1", [])) == []


def test_disks_are_findings_by_how_full_they_are() -> None:
    volumes = [
        Volume("/full", GIB, 1000),
        Volume("/nearly", 100 * GIB, 3 * GIB),
        Volume("/roomy", 100 * GIB, 50 * GIB),
        Volume("/tmp/logs", 100 * GIB, 50 * GIB),
    ]
    broker = BrokerHealth(1, "h:1", None, failed_dirs=["/lost"], volumes=volumes)
    findings = found(health(broker))
    assert [(each.check, each.grade) for each in findings] == [
        ("failed-directory", CheckGrade.BROKEN),
        ("full-disk", CheckGrade.BROKEN),
        ("nearly-full-disk", CheckGrade.RISK),
        ("temporary-directory", CheckGrade.NOTE),
    ]
    assert "/nearly has 3 % left" in findings[2].says


def test_partition_without_a_leader_is_in_one_finding_only() -> None:
    given = health(offline=[T0], under_min_isr=[T0, T1], under_replicated=[T0, T1])
    offline, under_min = found(given)
    assert (offline.check, offline.about) == ("offline", "partition t-0")
    assert (offline.remedy or "").endswith("kwire cluster elect --unclean t:0")
    assert (under_min.check, under_min.about) == ("under-min-isr", "partition t-1")


def test_partition_with_few_in_sync_replicas_is_a_risk() -> None:
    [each] = found(health(under_replicated=[T1]))
    assert (each.check, each.grade) == ("under-replicated", CheckGrade.RISK)


def test_leaders_other_than_the_preferred_ones_are_a_note_if_they_are_many() -> None:
    many = [TopicPartition("t", number) for number in range(2)]
    [each] = found(health(not_preferred=many))
    assert (each.check, each.remedy) == ("not-preferred", "kwire cluster elect --all")
    assert found(health(not_preferred=many[:1])) == []
