"""Tests further features of confluent-kafka's consumer: positions, limits, membership, errors."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.clients.librdkafka import (
    TIMEOUT_S,
    consumer,
    create_topic,
    produce,
    take,
    values,
    wait_until,
)

pytestmark = pytest.mark.slow

BRISK = {"heartbeat.interval.ms": 300, "topic.metadata.refresh.interval.ms": 300}
THIRD_LAST = -2000 - 3
"""librdkafka's OFFSET_TAIL(3), for which the Python client has no name."""
POLL_INTERVAL_MS = 6000
"""At least the session timeout, whose smallest value a broker limits to this."""


def partitions(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def test_reading_begins_at_the_assigned_offset(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 10)
    with consumer(bootstrap, unique) as reader:
        reader.commit(offsets=[TopicPartition(unique, 0, 7)], asynchronous=False)
        for start, first in [(OFFSET_STORED, 7), (OFFSET_BEGINNING, 0), (4, 4), (THIRD_LAST, 7)]:
            reader.assign([TopicPartition(unique, 0, start)])
            assert values(take(reader, 2)) == [first, first + 1]


def test_paused_partitions_return_no_records(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, partitions=2)
    paused, running = partitions(unique, 2)
    with consumer(bootstrap, unique) as reader:
        reader.assign([paused, running])
        reader.pause([paused])
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(10):
            producer.produce(unique, str(number).encode(), partition=number % 2)
        assert producer.flush(TIMEOUT_S) == 0
        assert values(take(reader, 5)) == [1, 3, 5, 7, 9]
        assert reader.poll(0.2) is None
        reader.resume([paused])
        assert values(take(reader, 5)) == [0, 2, 4, 6, 8]


def test_record_larger_than_the_fetch_size_is_returned(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, config={"max.message.bytes": "5000000"})
    sizes = [4_000_000, 10, 900_000, 3_000_000]
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 5_000_000})
    for size in sizes:
        producer.produce(unique, bytes(size))
    assert producer.flush(TIMEOUT_S) == 0
    limits = {
        "fetch.message.max.bytes": 1000,
        "fetch.max.bytes": 1000,
        "message.max.bytes": 1000,
        "receive.message.max.bytes": 6_000_000,
    }
    with consumer(bootstrap, unique, **limits) as reader:
        reader.assign(partitions(unique, 1))
        assert [len(message.value() or b"") for message in take(reader, 4)] == sizes


def test_fetch_returns_records_after_its_maximum_wait(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    settings = {"fetch.min.bytes": 100_000_000, "fetch.wait.max.ms": 300}
    with consumer(bootstrap, unique, **settings) as reader:
        reader.assign(partitions(unique, 1))
        assert reader.poll(0.1) is None
        produce(bootstrap, unique, 3)
        assert values(take(reader, 3)) == [0, 1, 2]


@pytest.mark.parametrize("kept", ["gzip", "lz4", "uncompressed", "producer"])
def test_topic_compression_replaces_the_producers_codec(
    bootstrap: str, unique: str, kept: str
) -> None:
    """The broker recompresses batches with another codec, also of an idempotent producer."""
    create_topic(bootstrap, unique, config={"compression.type": kept})
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        settings = {"compression.type": codec, "linger.ms": 20, "enable.idempotence": True}
        produce(bootstrap, unique, 100, **settings)
    with consumer(bootstrap, unique, **{"check.crcs": True}) as reader:
        reader.assign(partitions(unique, 1))
        messages = take(reader, 500)
        assert values(messages) == list(range(100)) * 5
        assert [message.offset() for message in messages] == list(range(500))


def test_commit_contains_only_stored_offsets(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 10)
    with consumer(bootstrap, unique, **{"enable.auto.offset.store": False}) as reader:
        reader.subscribe([unique])
        messages = take(reader, 10)
        reader.store_offsets(message=messages[3])
    (partition,) = partitions(unique, 1)
    with consumer(bootstrap, unique) as reader:
        (committed,) = reader.committed([partition], TIMEOUT_S)
        assert committed.offset == 4


def test_commits_carry_metadata_and_a_leader_epoch(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 1)
    create_topic(bootstrap, f"{unique}-more", partitions=2)
    with consumer(bootstrap, unique) as reader:
        sent = TopicPartition(unique, 0, 1, metadata="why", leader_epoch=0)
        (done,) = reader.commit(offsets=[sent], asynchronous=False) or []
        assert done.error is None
        asked = [TopicPartition(unique, 0), TopicPartition(f"{unique}-more", 1)]
        found, none = reader.committed(asked, TIMEOUT_S)
        assert (found.offset, found.metadata, found.leader_epoch) == (1, "why", 0)
        assert none.offset == OFFSET_INVALID


def test_offset_out_of_range_is_reported_without_a_reset_policy(
    bootstrap: str, unique: str
) -> None:
    produce(bootstrap, unique, 5)
    with consumer(bootstrap, unique, **{"auto.offset.reset": "error"}) as reader:
        reader.assign([TopicPartition(unique, 0, 100)])
        message = reader.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
        reader.assign([TopicPartition(unique, 0, 4)])
        assert values(take(reader, 1)) == [4]


def test_new_group_starts_at_the_end_by_default(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 5)
    settings = {"auto.offset.reset": "latest", "enable.partition.eof": True}
    with consumer(bootstrap, unique, **settings) as reader:
        reader.subscribe([unique])
        (end,) = reader.consume(1, TIMEOUT_S)
        error = end.error()
        assert error is not None
        assert (error.code(), end.offset()) == (KafkaError._PARTITION_EOF, 5)
        produce(bootstrap, unique, 2)
        assert values(take(reader, 2)) == [0, 1]


def test_many_partitions_are_read_completely_and_in_order(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, partitions=60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(3_000):
        producer.produce(unique, str(number).encode(), partition=number % 60)
    assert producer.flush(TIMEOUT_S) == 0
    with consumer(bootstrap, unique, **{"fetch.message.max.bytes": 500}) as reader:
        reader.subscribe([unique])
        read: dict[int | None, list[int]] = {}
        for message in take(reader, 3_000):
            read.setdefault(message.partition(), []).append(int(message.value() or b"-1"))
    assert read == {part: list(range(part, 3_000, 60)) for part in range(60)}


def test_partitions_are_assigned_and_revoked_incrementally(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, partitions=3)
    producer = Producer({"bootstrap.servers": bootstrap})
    with consumer(bootstrap, unique) as reader:
        first, second, third = partitions(unique, 3)
        reader.incremental_assign([first, second])
        reader.incremental_assign([third])
        reader.incremental_unassign([second])
        for number in range(30):
            producer.produce(unique, str(number).encode(), partition=number % 3)
        assert producer.flush(TIMEOUT_S) == 0
        assert {message.partition() for message in take(reader, 20)} == {0, 2}
        assert reader.poll(0.2) is None
        reader.incremental_assign([second])
        assert values(take(reader, 10)) == list(range(1, 30, 3))


def test_pattern_subscription_finds_topics_created_later(bootstrap: str, unique: str) -> None:
    produce(bootstrap, f"{unique}-a", 1)
    with consumer(bootstrap, unique, **BRISK) as reader:
        reader.subscribe([f"^{unique}-.$"])
        assert [message.topic() for message in take(reader, 1)] == [f"{unique}-a"]
        produce(bootstrap, f"{unique}-other", 1)
        produce(bootstrap, f"{unique}-b", 1)
        assert [message.topic() for message in take(reader, 1)] == [f"{unique}-b"]


def test_added_partitions_are_assigned_and_read(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with consumer(bootstrap, unique, **BRISK) as reader:
        reader.subscribe([unique])
        wait_until(lambda: len(reader.assignment()) == 1, reader)
        admin.create_partitions([NewPartitions(unique, 3)])[unique].result(TIMEOUT_S)
        wait_until(lambda: len(reader.assignment()) == 3, reader)
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(unique, b"9", partition=2)
        assert producer.flush(TIMEOUT_S) == 0
        assert values(take(reader, 1)) == [9]


def test_reader_reports_the_deletion_of_its_topic(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 3)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with consumer(bootstrap, unique, **BRISK) as reader:
        reader.subscribe([unique])
        assert values(take(reader, 3)) == [0, 1, 2]
        admin.delete_topics([unique])[unique].result(TIMEOUT_S)
        message = reader.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_recreated_topic_is_read_from_its_beginning(bootstrap: str, unique: str) -> None:
    """The topic has a new id (KIP-516), and its offsets begin at 0."""
    produce(bootstrap, unique, 30)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with consumer(bootstrap, unique, **BRISK) as reader:
        reader.assign(partitions(unique, 1))
        assert values(take(reader, 30)) == list(range(30))
        admin.delete_topics([unique])[unique].result(TIMEOUT_S)
        create_topic(bootstrap, unique)
        produce(bootstrap, unique, 5)
    with consumer(bootstrap, f"{unique}-2") as reader:
        reader.subscribe([unique])
        assert values(take(reader, 5)) == list(range(5))


def test_member_that_unsubscribes_gives_its_partitions_back(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, partitions=4)
    with consumer(bootstrap, unique, **BRISK) as first, consumer(bootstrap, unique) as second:
        first.subscribe([unique])
        second.subscribe([unique])
        wait_until(lambda: len(first.assignment()) == 2 == len(second.assignment()), first, second)
        second.unsubscribe()
        wait_until(lambda: len(first.assignment()) == 4, first, second)


def test_member_that_does_not_poll_loses_its_partitions(bootstrap: str, unique: str) -> None:
    """It leaves the group (`max.poll.interval.ms`), reports it, and rejoins at its next poll."""
    create_topic(bootstrap, unique, partitions=2)
    limits = {"session.timeout.ms": POLL_INTERVAL_MS, "max.poll.interval.ms": POLL_INTERVAL_MS}
    with (
        consumer(bootstrap, unique, **BRISK) as works,
        consumer(bootstrap, unique, **BRISK, **limits) as sleeps,
    ):
        works.subscribe([unique])
        sleeps.subscribe([unique])
        wait_until(lambda: len(works.assignment()) == 1 == len(sleeps.assignment()), works, sleeps)
        wait_until(lambda: len(works.assignment()) == 2, works)
        message = sleeps.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._MAX_POLL_EXCEEDED
        wait_until(lambda: len(works.assignment()) == 1 == len(sleeps.assignment()), works, sleeps)


def test_member_that_was_removed_cannot_commit(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    static = {"group.instance.id": "one", **BRISK}
    offset = [TopicPartition(unique, 0, 1)]
    with consumer(bootstrap, unique, **static) as first:
        first.subscribe([unique])
        wait_until(lambda: len(first.assignment()) == 1, first)
        first.commit(offsets=offset, asynchronous=False)
        with consumer(bootstrap, unique, **static) as second:
            second.subscribe([unique])
            wait_until(lambda: len(second.assignment()) == 1, second)
            with pytest.raises(KafkaException) as refused:
                first.commit(offsets=offset, asynchronous=False)
    code = refused.value.args[0].code()
    assert code in {KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL}


def test_consumer_calls_return_at_their_timeouts(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    with consumer(bootstrap, unique) as reader:
        reader.assign(partitions(unique, 1))
        began = time.monotonic()
        assert reader.poll(0.3) is None
        assert 0.25 < time.monotonic() - began < TIMEOUT_S / 2
