"""Many groups at once: descriptions, offsets and lag."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kwire.client.cluster import Cluster, ClusterNode, TopicPartition
from kwire.client.consumer import Consumer, Reset
from kwire.client.errors import ClientError, RequestTimedOut
from kwire.client.groups import GroupDescription, commit_offsets
from kwire.client.inspection.many_groups import (
    GroupPosition,
    Listed,
    describe_groups,
    known_end_offsets,
    listed_groups,
    positions_of,
    with_lag,
)
from kwire.client.inspection.share_states import share_states
from kwire.client.inspection.survey import ROLE, from_each
from kwire.client.membership.share_consumer import Acknowledgement, ShareConsumer
from kwire.client.offsets import EARLIEST
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.testing import BrokerProcess


@pytest.fixture
def cluster(shared_broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(shared_broker.bootstrap, timeout_s=60) as found:
        yield found


def fill(cluster: Cluster, topic: str, count: int) -> None:
    """Create a topic of two partitions, and write records to partition 0."""
    create_topic(cluster, topic, partitions=2)
    producer = Producer(cluster)
    for number in range(count):
        producer.send(topic, None, str(number).encode(), partition=0)
    producer.flush()


def own(cluster: Cluster, prefix: str) -> list[Listed]:
    return [each for each in listed_groups(cluster).groups if each.group_id.startswith(prefix)]


def test_committed_offsets_and_lag_of_several_groups_come_together(
    cluster: Cluster, unique: str
) -> None:
    fill(cluster, unique, 10)
    for number in range(3):
        commit_offsets(cluster, f"{unique}-{number}", {TopicPartition(unique, 0): number})
    groups = own(cluster, unique)
    assert [(each.group_id, each.type, each.state) for each in groups] == [
        (f"{unique}-{number}", "classic", "Empty") for number in range(3)
    ]
    positions = positions_of(cluster, groups)
    ends = known_end_offsets(cluster, [TopicPartition(unique, 0)])
    for number in range(3):
        found = positions[f"{unique}-{number}"]
        assert not isinstance(found, ClientError)
        place = TopicPartition(unique, 0)
        assert with_lag(found, ends) == {place: GroupPosition(number, 10, 10 - number)}


def test_members_of_classic_and_consumer_groups_are_described_together(
    cluster: Cluster, unique: str
) -> None:
    fill(cluster, unique, 1)
    members = []
    for kind in (False, True):
        consumer = Consumer(cluster, reset=Reset.EARLIEST)
        consumer.subscribe(f"{unique}-{kind}", [unique], consumer_protocol=kind)
        while not consumer.positions:
            consumer.poll(0.1)
        members.append(consumer)
    found = describe_groups(cluster, own(cluster, unique))
    for group_id, group_type in ((f"{unique}-False", "classic"), (f"{unique}-True", "consumer")):
        group = found[group_id]
        assert isinstance(group, GroupDescription)
        assert group.type == group_type
        [member] = group.members
        assert sorted(member.assignment) == [TopicPartition(unique, 0), TopicPartition(unique, 1)]
    for consumer in members:
        consumer.close()


def test_share_states_tell_deliveries_and_change_nothing(cluster: Cluster, unique: str) -> None:
    fill(cluster, unique, 0)
    consumer = ShareConsumer(cluster, unique, [unique], Acknowledgement.RELEASE)
    producer = Producer(cluster)
    while not (records := consumer.poll(0.1)):  # a new group reads what comes after its first fetch
        producer.send(unique, None, b"value", partition=0)
        producer.flush()
    consumer.commit()
    consumer.close()
    states = share_states(cluster, unique, [TopicPartition(unique, 0)])
    assert states == share_states(cluster, unique, [TopicPartition(unique, 0)])
    state = states[TopicPartition(unique, 0)]
    delivered = sum(each.records for each in state.ranges if each.delivery_count == 1)
    assert delivered == len(records)
    assert {each.state for each in state.ranges} == {"available"}
    [listed] = own(cluster, unique)
    positions = positions_of(cluster, [listed])[unique]
    assert not isinstance(positions, ClientError)
    lag = positions[TopicPartition(unique, 0)].lag
    assert lag is not None
    assert lag >= len(records)


def test_end_offsets_leave_out_partitions_that_do_not_exist(cluster: Cluster, unique: str) -> None:
    fill(cluster, unique, 2)
    cluster.refresh([unique])
    wanted = [TopicPartition(unique, 0), TopicPartition(unique, 7), TopicPartition("absent", 0)]
    assert known_end_offsets(cluster, wanted) == {TopicPartition(unique, 0): 2}
    assert known_end_offsets(cluster, wanted, timestamp=EARLIEST) == {TopicPartition(unique, 0): 0}


def test_broker_that_hangs_costs_the_short_timeout_of_surveys(
    cluster: Cluster,
) -> None:
    cluster.refresh([])
    from_each(cluster, lambda _, broker: broker.address)  # connects to the others, with patience
    with socket.create_server(("127.0.0.1", 0)) as listener:  # nobody accepts its connections
        port = listener.getsockname()[1]
        cluster.nodes[4711] = ClusterNode(4711, "127.0.0.1", port)
        cluster.role_timeouts_s[ROLE] = 0.05
        reports = from_each(cluster, lambda _, broker: broker.address)
    assert isinstance(reports.pop(4711), RequestTimedOut)
    cluster.role_timeouts_s.clear()
    assert all(not isinstance(report, ClientError) for report in reports.values()), reports
