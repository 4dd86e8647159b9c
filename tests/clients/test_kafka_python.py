"""Tests kafka-python with its default settings: produce, consume, commit, resume, administer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import (
    ElectionNotNeededError,
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0


def produce(bootstrap: str, topic: str, count: int, **settings: object) -> None:
    """Send `count` records with values "0", "1", ...; every one must be acknowledged."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    futures = [producer.send(topic, str(number).encode()) for number in range(count)]
    producer.flush(TIMEOUT_S)
    assert [future.get(TIMEOUT_S).topic for future in futures] == [topic] * count
    producer.close()


@contextmanager
def consumer(
    bootstrap: str, group: str | None, *topics: str, **settings: object
) -> Iterator[KafkaConsumer]:
    made = KafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        group_id=group,
        **{"auto_offset_reset": "earliest", **settings},
    )
    for topic in topics:
        # A leader that joins before it has the topic's metadata assigns nothing, to anybody, for
        # minutes: kafka-python's own race, which it loses on Apache Kafka as well.
        made.partitions_for_topic(topic)
    try:
        yield made
    finally:
        made.close()


def take(source: KafkaConsumer, count: int) -> list[Any]:
    """The next `count` records."""
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count and time.monotonic() < deadline:
        polled = source.poll(timeout_ms=200, max_records=count - len(records))
        records += [record for batch in polled.values() for record in batch]
    assert len(records) == count
    return records


def values(records: list[Any]) -> list[int]:
    return [int(record.value) for record in records]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_consumer_resumes_at_its_committed_offset(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 100)
    with consumer(bootstrap, unique, unique) as first:
        assert values(take(first, 60)) == list(range(60))
    produce(bootstrap, unique, 10)
    with consumer(bootstrap, unique, unique) as second:
        assert second.committed(TopicPartition(unique, 0)) == 60
        assert values(take(second, 50)) == [*range(60, 100), *range(10)]


def test_offsets_are_committed_with_their_metadata(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 10)
    partition = TopicPartition(unique, 0)
    with consumer(bootstrap, unique, enable_auto_commit=False) as reader:
        reader.assign([partition])
        reader.commit({partition: OffsetAndMetadata(4, "so far", -1)})
        committed = reader.committed(partition, metadata=True)
        assert (committed.offset, committed.metadata) == (4, "so far")


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_as_written(
    bootstrap: str, unique: str, codec: str | None
) -> None:
    produce(bootstrap, unique, 300, compression_type=codec, linger_ms=50)
    with consumer(bootstrap, None, unique) as reader:
        assert values(take(reader, 300)) == list(range(300))


def test_keys_headers_tombstones_and_timestamps_are_read_as_written(
    bootstrap: str, unique: str
) -> None:
    now_ms = int(time.time() * 1000)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    headers = [("a", b"1"), ("a", b"2")]
    producer.send(unique, b"value", b"key", headers=headers, timestamp_ms=now_ms - 5000)
    producer.send(unique, None, b"key")
    producer.flush(TIMEOUT_S)
    producer.close()
    with consumer(bootstrap, None, unique) as reader:
        full, tombstone = take(reader, 2)
    assert (full.key, full.value, list(full.headers)) == (b"key", b"value", headers)
    assert full.timestamp == now_ms - 5000
    assert (tombstone.key, tombstone.value) == (b"key", None)


def test_idempotent_producer_writes_many_small_batches(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 500, batch_size=200)
    with consumer(bootstrap, None, unique) as reader:
        assert values(take(reader, 500)) == list(range(500))


def test_offsets_by_timestamp_and_ends_are_reported(bootstrap: str, unique: str) -> None:
    start_ms = int(time.time() * 1000) - 100_000
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(50):
        producer.send(unique, b"v", timestamp_ms=start_ms + number * 1000)
        if number % 10 == 9:
            producer.flush(TIMEOUT_S)
    producer.close()
    partition = TopicPartition(unique, 0)
    with consumer(bootstrap, None) as reader:
        found = reader.offsets_for_times({partition: start_ms + 20_500})[partition]
        assert (found.offset, found.timestamp) == (21, start_ms + 21_000)
        assert reader.offsets_for_times({partition: start_ms + 99_000}) == {partition: None}
        assert reader.beginning_offsets([partition]) == {partition: 0}
        assert reader.end_offsets([partition]) == {partition: 50}


POLL_MS = 300
"""Timeout of a poll, which also limits the commit before a rebalance in it.

50 ms were too short on a busy machine; the client then lost its membership each time.
"""


def wait_for_assignments(sizes: list[int], consumers: list[KafkaConsumer]) -> None:
    """Poll until each consumer has that many partitions."""
    deadline = time.monotonic() + TIMEOUT_S
    while [len(each.assignment()) for each in consumers] != sizes:
        assert time.monotonic() < deadline, "not within the time limit"
        for each in consumers:
            each.poll(timeout_ms=POLL_MS)


ASSIGNORS = [StickyPartitionAssignor, CooperativeStickyAssignor]


@pytest.mark.parametrize("assignor", [None, *ASSIGNORS])
def test_partitions_move_to_a_second_member_and_back(
    bootstrap: str, unique: str, admin: KafkaAdminClient, assignor: type | None
) -> None:
    admin.create_topics([NewTopic(unique, 4, 1)])
    settings: dict[str, Any] = {"heartbeat_interval_ms": 300}
    if assignor is not None:
        settings["partition_assignment_strategy"] = [assignor]
    with consumer(bootstrap, unique, unique, **settings) as first:
        wait_for_assignments([4], [first])
        with consumer(bootstrap, unique, unique, **settings) as second:
            wait_for_assignments([2, 2], [first, second])
            held = first.assignment() | second.assignment()
            assert {partition.partition for partition in held} == {0, 1, 2, 3}
        wait_for_assignments([4], [first])


class Count(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    """Counts assignments."""

    def __init__(self) -> None:
        self.assigned = 0

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Does nothing, since there is no state to save."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.assigned += 1


def test_static_member_returns_without_a_rebalance(
    bootstrap: str, unique: str, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic(unique, 2, 1)])
    count = Count()
    with consumer(bootstrap, unique, group_instance_id="stays", heartbeat_interval_ms=300) as stays:
        stays.subscribe([unique], listener=count)
        stays.partitions_for_topic(unique)
        with consumer(bootstrap, unique, unique, group_instance_id="restarts") as restarts:
            wait_for_assignments([1, 1], [stays, restarts])
        before = count.assigned
        with consumer(bootstrap, unique, unique, group_instance_id="restarts") as again:
            wait_for_assignments([1, 1], [stays, again])
        assert count.assigned == before


def test_admin_creates_alters_and_deletes_topics(
    bootstrap: str, unique: str, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic(unique, 2, 1, topic_configs={"retention.ms": "12345"})])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(unique, 2, 1)])
    admin.create_partitions({unique: NewPartitions(3)})
    (described,) = admin.describe_topics([unique])
    assert len(described["partitions"]) == 3
    resource = ConfigResource(ConfigResourceType.TOPIC, unique, {"retention.bytes": "777"})
    admin.alter_configs([resource])
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, unique)])
    assert {"retention.ms", "retention.bytes"} <= set(next(iter(found.values()))[unique])
    admin.delete_topics([unique])
    assert unique not in admin.list_topics()


def test_admin_describes_groups_and_their_offsets(
    bootstrap: str, unique: str, admin: KafkaAdminClient
) -> None:
    produce(bootstrap, unique, 10)
    partition = TopicPartition(unique, 0)
    with consumer(bootstrap, unique, unique) as member:
        take(member, 10)
        member.commit()
        assert unique in {group["group_id"] for group in admin.list_groups()}
        (described,) = admin.describe_groups([unique]).values()
        assert described["group_state"] == "Stable"
        assert admin.delete_groups([unique]) == {unique: "NonEmptyGroupError"}
    assert admin.list_group_offsets(unique)[unique][partition].offset == 10
    admin.alter_group_offsets(unique, {partition: OffsetAndMetadata(3, "", -1)})
    assert admin.list_group_offsets(unique)[unique][partition].offset == 3
    assert admin.delete_groups([unique]) == {unique: "OK"}
    assert admin.delete_groups([unique]) == {unique: "GroupIdNotFoundError"}


def test_records_before_an_offset_are_deleted(
    bootstrap: str, unique: str, admin: KafkaAdminClient
) -> None:
    produce(bootstrap, unique, 10)
    partition = TopicPartition(unique, 0)
    admin.delete_records({partition: 6})
    with consumer(bootstrap, None, unique) as reader:
        assert values(take(reader, 4)) == [6, 7, 8, 9]


def test_admin_elects_leaders_and_reassigns_partitions(
    bootstrap: str, unique: str, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic(unique, 2, 1)])
    elected = admin.elect_leaders(0, {unique: [0, 1]})
    (topic,) = elected.replica_election_results
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [
        (0, ElectionNotNeededError.errno),
        (1, ElectionNotNeededError.errno),
    ]
    zero, one = TopicPartition(unique, 0), TopicPartition(unique, 1)
    (described,) = admin.describe_topics([unique])
    replicas = described["partitions"][0]["replica_nodes"]
    asked = {zero: replicas, one: [*replicas, 4711], TopicPartition(unique, 2): replicas}
    assert admin.alter_partition_reassignments(asked) == {
        zero: None,
        one: InvalidReplicationAssignmentError,
        TopicPartition(unique, 2): UnknownTopicOrPartitionError,
    }
    ended = admin.alter_partition_reassignments({zero: None})
    assert ended == {zero: NoReassignmentInProgressError}
    assert admin.list_partition_reassignments({unique: [0, 1]}) == {}
