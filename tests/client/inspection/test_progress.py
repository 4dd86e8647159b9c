"""How far partitions and groups have come, as kwire's and Apache Kafka's brokers report it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.client.cluster import Cluster, ClusterNode, TopicPartition
from kwire.client.errors import RequestTimedOut
from kwire.client.groups import commit_offsets
from kwire.client.inspection import progress as module
from kwire.client.inspection.many_groups import ListedGroups
from kwire.client.inspection.progress import progress
from kwire.client.membership.consumer import ConsumerProtocolMember
from kwire.client.membership.share_consumer import Acknowledgement, ShareConsumer
from kwire.client.producer import Producer
from kwire.client.topics import create_topic

Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture
def topic(cluster: Cluster, unique: str) -> str:
    """A topic of two partitions, with six records in the first one."""
    create_topic(cluster, unique, partitions=2, replication_factor=1)
    producer = Producer(cluster)
    for number in range(6):
        producer.send(unique, b"%d" % number, partition=0)
    producer.flush()
    return unique


def test_progress_has_ends_and_sizes_of_partitions(cluster: Cluster, topic: str) -> None:
    found = progress(cluster)
    ends = found.end_offsets
    assert (ends[TopicPartition(topic, 0)], ends[TopicPartition(topic, 1)]) == (6, 0)
    assert found.troubles == {}
    (sizes,) = found.sizes.values()
    assert sizes.size_bytes[TopicPartition(topic, 0)] > 0


def test_progress_has_groups_of_several_kinds_with_their_offsets(
    cluster: Cluster, topic: str
) -> None:
    place = TopicPartition(topic, 0)
    for number in range(3):
        commit_offsets(cluster, f"{topic}-{number}", {place: number})
    member = ConsumerProtocolMember(cluster, f"{topic}-member", [topic])
    member.join()
    found = progress(cluster).groups
    for number in range(3):
        group = found[f"{topic}-{number}"]
        assert (group.members, group.lags) == (0, {place: 6 - number})
        assert group.positions[place].offset == number
    joined = found[f"{topic}-member"]
    assert (joined.type, joined.members, joined.positions) == ("consumer", 1, {})
    member.leave()


def test_progress_has_share_groups_with_their_lag(
    cluster: Cluster, topic: str, eventually: Eventually
) -> None:
    """A share group begins at the end, so it may not get the first record that is written."""
    name = f"{topic}-shared"
    consumer = ShareConsumer(cluster, name, [topic], Acknowledgement.ACCEPT)

    producer = Producer(cluster)

    def has_read() -> bool:
        producer.send(topic, b"v", partition=0)
        producer.flush()
        return bool(consumer.poll(0.1))

    def has_no_lag() -> bool:
        consumer.poll(0.1)
        consumer.commit()
        group = progress(cluster).groups[name]
        assert group.type == "share"
        return group.lags.get(TopicPartition(topic, 0)) == 0

    eventually(has_read)
    eventually(has_no_lag)
    group = progress(cluster).groups[name]
    assert group.members == 1
    assert group.positions[TopicPartition(topic, 0)].offset is not None
    consumer.close()


def test_progress_asks_a_broker_that_fails_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a broker that hangs would cost its timeout again with each request."""
    cluster = Cluster("127.0.0.1:1")
    cluster.nodes = {number: ClusterNode(number, "h", number) for number in (1, 2)}
    asked: list[list[int]] = []

    def asks(result: object) -> Callable[..., object]:
        def ask(cluster: Cluster, *_: object) -> object:
            asked.append(list(cluster.nodes))
            return result

        return ask

    error = RequestTimedOut("it hangs")
    monkeypatch.setattr(module, "all_topics", asks([]))
    monkeypatch.setattr(module, "listed_groups", asks(ListedGroups([], {2: error})))
    for name in ("describe_groups", "positions_of", "known_end_offsets", "from_each"):
        monkeypatch.setattr(module, name, asks({}))
    found = progress(cluster)
    assert asked == [[1, 2], [1, 2], [1], [1], [1], [1]]
    assert list(found.nodes) == [1, 2]
    assert found.troubles == {2: error}
