"""Producing, consuming and groups against a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.consumer import Consumer, Reset
from kwire.client.errors import BrokerRefused, Misuse
from kwire.client.fetcher import ConsumedRecord
from kwire.client.groups import describe_group, fetch_offsets
from kwire.client.offsets import end_offsets, offsets_at, start_offsets
from kwire.client.partitioner import partition_for
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.codecs.batches import Compression
from kwire.codecs.errors import ErrorCode
from kwire.testing import BrokerProcess


def everything(cluster: Cluster, partitions: Iterable[TopicPartition]) -> list[ConsumedRecord]:
    """All records that the partitions hold now."""
    consumer = Consumer(cluster)
    consumer.assign(start_offsets(cluster, list(partitions)))
    found = []
    while not consumer.is_at_end:
        found += consumer.poll()
    consumer.close()
    return found


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(count)]


@pytest.mark.parametrize("compression", list(Compression))
def test_produced_records_are_consumed_unchanged(
    cluster: Cluster, unique: str, compression: Compression
) -> None:
    create_topic(cluster, unique, partitions=3)
    producer = Producer(cluster, compression=compression)
    for number in range(500):
        key = b"key-%d" % (number % 7)
        producer.send(unique, b"value-%d" % number, key, headers=[("n", b"%d" % number)])
    producer.send(unique, None, b"key-0", headers=[("empty", None)], timestamp_ms=1_000)
    assert sum(batch.records for batch in producer.flush()) == 501
    found = everything(cluster, partitions_of(unique, 3))
    assert len(found) == 501
    for record in found:
        assert record.key is not None
        assert record.partition == partition_for(record.key, 3)
        assert record.timestamp_type == "CreateTime"
    numbered = {record.value: record for record in found}
    assert numbered[b"value-42"].headers == [("n", b"42")]
    tombstone = numbered[None]
    assert (tombstone.headers, tombstone.timestamp_ms) == ([("empty", None)], 1_000)
    for index in range(3):
        offsets = [record.offset for record in found if record.partition == index]
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_producer_works_with_each_acks(cluster: Cluster, unique: str, acks: int) -> None:
    create_topic(cluster, unique, partitions=1)
    producer = Producer(cluster, acks=acks)
    producer.send(unique, b"v")
    (delivered,) = producer.flush()
    assert delivered.base_offset == (-1 if acks == 0 else 0)
    deadline = time.monotonic() + 120
    while end_offsets(cluster, [TopicPartition(unique, 0)]) == {TopicPartition(unique, 0): 0}:
        assert time.monotonic() < deadline, "the record did not come"


def test_records_without_keys_change_the_partition_after_each_batch(
    cluster: Cluster, unique: str
) -> None:
    create_topic(cluster, unique, partitions=3)
    producer = Producer(cluster)
    for _ in range(6):
        producer.send(unique, b"v")
        producer.flush()
    ends = end_offsets(cluster, partitions_of(unique, 3))
    assert set(ends.values()) == {2}


def test_producer_creates_the_topic_unless_told_otherwise(cluster: Cluster, unique: str) -> None:
    producer = Producer(cluster, create_topics=False)
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        producer.send(unique, b"v")
    producer = Producer(cluster)
    producer.send(unique, b"v")
    assert len(producer.flush()) == 1


def test_producer_reports_a_record_that_is_too_large(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=1, configs={"max.message.bytes": "1000"})
    producer = Producer(cluster)
    producer.send(unique, b"v" * 2000)
    with pytest.raises(BrokerRefused, match="MESSAGE_TOO_LARGE"):
        producer.flush()


def test_producer_refuses_an_unknown_partition(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=1)
    with pytest.raises(Misuse, match="has no partition 5: it has 1"):
        Producer(cluster).send(unique, b"v", partition=5)


def test_offsets_at_returns_the_first_offset_at_or_after_a_time(
    cluster: Cluster, unique: str
) -> None:
    create_topic(cluster, unique, partitions=1)
    producer = Producer(cluster)
    for timestamp in (1_000, 2_000, 3_000):
        producer.send(unique, b"v", timestamp_ms=timestamp)
    producer.flush()
    at = TopicPartition(unique, 0)
    assert offsets_at(cluster, [at], 0) == {at: 0}
    assert offsets_at(cluster, [at], 1_001) == {at: 1}
    assert offsets_at(cluster, [at], 3_000) == {at: 2}
    assert offsets_at(cluster, [at], 3_001) == {at: 3}


def test_poll_returns_at_most_records_max(cluster: Cluster, unique: str) -> None:
    """Fetched records that were not returned are after the position, for another member."""
    create_topic(cluster, unique, partitions=1)
    producer = Producer(cluster)
    for number in range(10):
        producer.send(unique, b"%d" % number)
    producer.flush()
    consumer = Consumer(cluster)
    at = TopicPartition(unique, 0)
    consumer.assign({at: 0})
    first: list[ConsumedRecord] = []
    while not first:
        first = consumer.poll(records_max=4)
    assert [record.offset for record in first] == [0, 1, 2, 3]
    assert consumer.positions == {at: 4}
    assert consumer.ends == {at: 10}
    assert [record.offset for record in consumer.poll()] == [4, 5, 6, 7, 8, 9]
    assert consumer.is_at_end
    consumer.close()


def test_consumer_resets_an_offset_out_of_range(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=1)
    producer = Producer(cluster)
    producer.send(unique, b"v")
    producer.flush()
    at = TopicPartition(unique, 0)
    strict = Consumer(cluster, reset=Reset.NONE)
    strict.assign({at: 99})
    with pytest.raises(BrokerRefused, match="OFFSET_OUT_OF_RANGE"):
        strict.poll(5)
    strict.close()
    lenient = Consumer(cluster, reset=Reset.EARLIEST)
    lenient.assign({at: 99})
    found: list[ConsumedRecord] = []
    while not found:
        found = lenient.poll(5)
    assert found[0].offset == 0
    lenient.close()


def test_consumer_continues_at_the_committed_offsets(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=2)
    producer = Producer(cluster)
    for number in range(10):
        producer.send(unique, b"%d" % number, partition=number % 2)
    producer.flush()
    first = Consumer(cluster, reset=Reset.EARLIEST)
    first.subscribe(unique, [unique])
    taken: list[ConsumedRecord] = []
    while len(taken) < 6:
        taken += first.poll(records_max=6 - len(taken))
    assert first.commit()
    first.close()
    assert sum(c.offset for c in fetch_offsets(cluster, unique).values()) == 6
    assert describe_group(cluster, unique).state == "Empty"
    second = Consumer(cluster, reset=Reset.NONE)
    second.subscribe(unique, [unique])
    while not (second.has_joined and second.is_at_end):
        taken += second.poll()
    second.close()
    assert sorted(int(record.value or b"") for record in taken) == list(range(10))


def test_second_member_gets_half_of_the_partitions(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=4)
    first = Consumer(cluster, reset=Reset.EARLIEST)
    first.subscribe(unique, [unique], heartbeat_interval_ms=50)
    assert first.wait_for_assignment(120)
    assert len(first.positions) == 4
    host, port = cluster.bootstrap[0]
    joined, done = threading.Event(), threading.Event()
    taken: list[TopicPartition] = []

    def be_second() -> None:
        with Cluster(f"{host}:{port}", timeout_s=60) as own:
            second = Consumer(own, reset=Reset.EARLIEST)
            second.subscribe(unique, [unique], heartbeat_interval_ms=50)
            second.wait_for_assignment(120)
            taken.extend(second.positions)
            joined.set()
            while not done.is_set():
                second.poll(0.05)
            second.close()

    thread = threading.Thread(target=be_second)
    thread.start()
    while not joined.is_set():
        first.poll(0.05)
    while len(first.positions) != 2:
        first.poll(0.05)
    assert sorted([*first.positions, *taken]) == partitions_of(unique, 4)
    assert len(describe_group(cluster, unique).members) == 2
    done.set()
    thread.join()
    while len(first.positions) != 4:  # it left, and this one gets its partitions at once
        first.poll(0.05)
    first.close()


@pytest.mark.slow
def test_broker_restart_loses_and_duplicates_no_record(broker: BrokerProcess) -> None:
    """The producer's batches are numbered, so one that was stored before is not stored again."""
    with Cluster(broker.bootstrap, timeout_s=60) as cluster:
        create_topic(cluster, "t", partitions=1)
        producer = Producer(cluster)
        for number in range(100):
            producer.send("t", b"%d" % number)
            producer.flush()
            if number in (30, 60):
                broker.restart()
        found = everything(cluster, [TopicPartition("t", 0)])
        assert [int(record.value or b"") for record in found] == list(range(100))


def test_unknown_error_code_is_reported() -> None:
    assert BrokerRefused(9999, "something").code is ErrorCode.UNKNOWN_SERVER_ERROR
