"""The client retries for a topic that it just created and its broker does not know yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import BrokerRefused
from kwire.client.offsets import end_offsets
from kwire.client.topics import create_topic
from kwire.testing import Kafka

pytestmark = pytest.mark.slow

UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


@pytest.fixture
def cluster(kafka: Kafka) -> Iterator[Cluster]:
    kafka.reset()
    with Cluster(kafka.bootstrap, timeout_s=60) as found:
        yield found


def test_create_topic_returns_once_metadata_have_the_topic(kafka: Kafka, cluster: Cluster) -> None:
    stale = kafka.faults.add("stale-metadata", client="kwire", topic="t", times=3)
    create_topic(cluster, "t")
    stale.assert_happened(times=3)
    assert len(cluster.topic("t").partitions) == 1


def test_create_topic_with_validate_only_does_not_wait(kafka: Kafka, cluster: Cluster) -> None:
    create_topic(cluster, "t", validate_only=True)
    with pytest.raises(BrokerRefused, match=UNKNOWN):
        cluster.topic("t")


def test_create_topic_succeeds_without_the_right_to_describe(
    kafka: Kafka, cluster: Cluster
) -> None:
    hidden = kafka.faults.add(
        api="Metadata", client="kwire", topic="t", error="TOPIC_AUTHORIZATION_FAILED"
    )
    assert create_topic(cluster, "t").error_code == 0
    hidden.assert_happened(times=1)


def test_list_offsets_retries_a_leader_that_does_not_know_it_yet(
    kafka: Kafka, cluster: Cluster
) -> None:
    create_topic(cluster, "t")
    place = TopicPartition("t", 0)
    unknown = kafka.faults.add(api="ListOffsets", topic="t", error=UNKNOWN, times=2)
    assert end_offsets(cluster, [place]) == {place: 0}
    unknown.assert_happened(times=2)


def test_list_offsets_of_a_deleted_topic_fails_at_once(kafka: Kafka, cluster: Cluster) -> None:
    create_topic(cluster, "t")
    kafka.reset()
    with pytest.raises(BrokerRefused, match=f"topic t: {UNKNOWN}"):
        end_offsets(cluster, [TopicPartition("t", 0)])
