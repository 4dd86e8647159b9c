"""The findings about the health of a cluster, from the answers of its brokers."""

from __future__ import annotations

import pytest

from kwire.client.cluster import ClusterNode, TopicPartition
from kwire.client.errors import ClientError, RequestTimedOut
from kwire.client.inspection.health import ClusterHealth, health_of
from kwire.client.inspection.quorum import ControllerQuorum, QuorumMember
from kwire.client.inspection.survey import BrokerReport, Sizes, Survey
from kwire.client.reassignments import Reassignment
from kwire.codecs.messages.metadata import MetadataResponsePartition
from kwire.codecs.volumes import FULL_BELOW_BYTES, Fullness, Volume, fullness

GIB = 1024**3
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def partition(leader: int, replicas: list[int], in_sync: list[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        leader_id=leader, replica_nodes=replicas, isr_nodes=in_sync, offline_replicas=[]
    )


def surveyed(
    partitions: dict[TopicPartition, MetadataResponsePartition],
    *,
    reports: dict[int, BrokerReport] | None = None,
    nodes: tuple[int, ...] = (1, 2, 3),
    min_isr: int = 1,
    controller_id: int = 1,
    reassignments: list[Reassignment] | None = None,
) -> ClusterHealth:
    reports = reports or {node_id: BrokerReport() for node_id in nodes}
    if controller_id in reports:
        reports[controller_id].reassignments = reassignments
    members = {each: ClusterNode(each, "h", each) for each in nodes}
    return health_of(Survey("id", controller_id, members, partitions, reports, {"t": min_isr}))


def test_healthy_cluster_has_no_ailments() -> None:
    health = surveyed({T0: partition(1, [1, 2], [2, 1]), T1: partition(2, [2, 3], [2, 3])})
    assert health.ailments == []
    assert (health.topics, health.partitions) == (1, 2)
    assert [(b.leaders, b.replicas, b.preferred) for b in health.brokers] == [
        (1, 1, 1), (1, 2, 1), (0, 1, 0),
    ]  # fmt: skip
    assert health.offline == health.under_replicated == health.not_preferred == []
    assert health.lags == []


def test_features_are_those_that_the_controller_reports() -> None:
    reports = {1: BrokerReport(features={"f": 1}), 2: BrokerReport(features={"f": 2})}
    places = {T0: partition(1, [1, 2], [1, 2])}
    assert surveyed(places, reports=reports, nodes=(1, 2), controller_id=2).features == {"f": 2}
    assert surveyed(places, reports=reports, nodes=(1, 2), controller_id=-1).features == {}


def quorum(*, epoch: int = 1, leader: int = 101, silent: tuple[int, ...] = ()) -> ControllerQuorum:
    """Of three controllers."""
    voters = [
        QuorumMember(each, True, 9, 0, None if each in silent else 0.0) for each in (101, 102, 103)
    ]
    return ControllerQuorum(leader, epoch, 9, voters)


def with_quorum(*found: ControllerQuorum | ClientError | None) -> ClusterHealth:
    """The health of a cluster, of which each broker describes the quorum in its way."""
    reports = {number: BrokerReport(quorum=each) for number, each in enumerate(found, 1)}
    return surveyed({}, reports=reports, nodes=tuple(reports), controller_id=2)


def test_controller_is_the_leader_of_the_quorum_which_is_no_broker() -> None:
    health = with_quorum(quorum(), quorum(epoch=2, leader=102), None)
    assert health.quorum == quorum(epoch=2, leader=102)
    assert (health.controller_id, health.ailments) == (102, [])


def test_controller_of_a_cluster_without_a_quorum_is_a_broker() -> None:
    health = with_quorum(None, None)
    assert (health.quorum, health.controller_id, health.ailments) == (None, 2, [])


def test_one_broker_that_reaches_the_controllers_suffices() -> None:
    health = with_quorum(RequestTimedOut("h:1 did not respond in 5 s"), quorum())
    assert (health.quorum, health.quorum_trouble) == (quorum(), None)


def test_controllers_that_no_broker_reaches_are_an_ailment() -> None:
    trouble = RequestTimedOut("h:1 did not respond in 5 s")
    health = with_quorum(trouble, trouble)
    assert health.ailments == ["the quorum of controllers: h:1 did not respond in 5 s"]
    assert (health.quorum, health.controller_id) == (None, -1)


def test_controller_that_does_not_follow_the_leader_is_an_ailment() -> None:
    health = with_quorum(quorum(silent=(103,)))
    assert health.ailments == ["controller 103 does not follow the quorum's leader"]


def test_absent_broker_with_replicas_is_an_ailment() -> None:
    health = surveyed({T0: partition(1, [4, 1], [1])})
    assert health.ailments == ["broker 4 is absent", "1 of 1 partitions under-replicated"]
    away = health.brokers[-1]
    assert (away.broker, away.address, away.replicas, away.preferred_led_by_others) == (
        4,
        None,
        1,
        1,
    )
    assert health.not_preferred == []  # it could not lead now


def test_partition_is_under_min_isr_if_acks_all_is_refused() -> None:
    three = partition(1, [1, 2, 3], [1])
    health = surveyed({T0: three, T1: partition(1, [1], [1])}, min_isr=2)
    assert health.under_min_isr == [T0]
    assert health.under_replicated == [T0]
    assert "1 of 2 partitions under min.insync.replicas" in health.ailments


def test_partition_without_a_leader_is_reported_as_offline_only() -> None:
    health = surveyed({T0: partition(-1, [1], [1])})
    assert (health.offline, health.ailments) == ([T0], ["1 of 1 partitions offline"])


def test_replicas_being_added_do_not_make_a_partition_under_replicated() -> None:
    moving = Reassignment(T0, (1, 2, 3), adding=(3,), removing=(1,))
    states = {T0: partition(1, [1, 2, 3], [1, 2])}
    assert surveyed(states, reassignments=[moving]).ailments == []
    assert surveyed(states, reassignments=[]).under_replicated == [T0]
    assert moving.target == (2, 3)


def test_leader_that_is_not_preferred_is_no_ailment() -> None:
    health = surveyed({T0: partition(2, [1, 2], [1, 2])})
    assert (health.not_preferred, health.ailments) == ([T0], [])
    assert [each.preferred_led_by_others for each in health.brokers] == [1, 0, 0]


def test_lag_is_the_difference_to_the_leaders_end_offset() -> None:
    reports = {
        1: BrokerReport(end_offsets={T0: 10, T1: 5}),
        2: BrokerReport(end_offsets={T0: 7, T1: 6}),
        3: BrokerReport(trouble=RequestTimedOut("h:3 did not respond in 5 s")),
    }
    states = {T0: partition(1, [1, 2, 3], [1, 3]), T1: partition(1, [1, 2], [1, 2])}
    health = surveyed(states, reports=reports)
    assert [(lag.partition, lag.broker, lag.records, lag.in_sync) for lag in health.lags] == [
        (T0, 2, 3, False)
    ]
    # Of the second partition the follower was asked after the leader.
    assert [each.lag_records for each in health.brokers] == [None, 3, None]


def test_errors_and_lost_directories_are_ailments() -> None:
    reports = {
        1: BrokerReport(sizes=Sizes({T0: 100, T1: 20}, ["/data/2"])),
        2: BrokerReport(trouble=RequestTimedOut("h:2 did not respond in 5 s")),
    }
    health = surveyed({T0: partition(1, [1], [1])}, reports=reports, nodes=(1, 2))
    assert health.brokers[0].size_bytes == 120
    assert health.ailments == ["broker 1 has lost /data/2", "broker 2: h:2 did not respond in 5 s"]


def test_controller_that_is_not_a_broker_counts_as_none() -> None:
    assert surveyed({}, controller_id=9).ailments == ["no controller"]
    assert surveyed({}, controller_id=9).reassignments is None


@pytest.mark.parametrize(
    ("total_bytes", "usable_bytes", "expected"),
    [
        (-1, -1, Fullness.ROOMY),  # before DescribeLogDirs v4
        (100 * GIB, 0, Fullness.FULL),
        (100 * GIB, FULL_BELOW_BYTES - 1, Fullness.FULL),
        (100 * GIB, FULL_BELOW_BYTES, Fullness.NEARLY_FULL),
        (100 * GIB, 5 * GIB - 1, Fullness.NEARLY_FULL),
        (100 * GIB, 5 * GIB, Fullness.ROOMY),
        (1000 * GIB, 10 * GIB - 1, Fullness.NEARLY_FULL),
        (1000 * GIB, 10 * GIB, Fullness.ROOMY),
    ],
)
def test_disk_is_nearly_full_below_a_twentieth_and_ten_segments(
    total_bytes: int, usable_bytes: int, expected: Fullness
) -> None:
    assert fullness(total_bytes, usable_bytes) is expected


def test_full_disks_are_ailments_and_nearly_full_ones_warnings() -> None:
    """Every append is refused then, which `status` once reported as healthy."""
    volumes = [Volume("/a", 100 * GIB, 50 * GIB), Volume("/b", 100 * GIB, 12)]
    reports = {
        1: BrokerReport(sizes=Sizes({}, [], volumes)),
        2: BrokerReport(sizes=Sizes({}, [], [Volume("/c", 100 * GIB, GIB)])),
    }
    health = surveyed({T0: partition(1, [1], [1])}, reports=reports, nodes=(1, 2))
    assert health.ailments == ["broker 1: the disk of /b is full"]
    assert health.warnings == ["broker 2: the disk of /c is nearly full"]
