"""Tests confluent-kafka (librdkafka) with default settings: produce, consume, commit, resume."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

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


def test_consumer_resumes_at_its_committed_offset(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 100)
    with consumer(bootstrap, unique) as first:
        first.subscribe([unique])
        assert values(take(first, 60)) == list(range(60))
        first.commit(asynchronous=False)
    produce(bootstrap, unique, 10)
    with consumer(bootstrap, unique) as second:
        second.subscribe([unique])
        assert values(take(second, 50)) == [*range(60, 100), *range(10)]
        (committed,) = second.committed([TopicPartition(unique, 0)], TIMEOUT_S)
        assert committed.offset == 60


def test_close_commits_the_consumed_offsets(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 10)
    with consumer(bootstrap, unique) as first:
        first.subscribe([unique])
        take(first, 10)
    with consumer(bootstrap, unique) as second:
        (committed,) = second.committed([TopicPartition(unique, 0)], TIMEOUT_S)
        assert committed.offset == 10


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_as_written(bootstrap: str, unique: str, codec: str) -> None:
    produce(bootstrap, unique, 500, **{"compression.type": codec, "linger.ms": 50})
    with consumer(bootstrap, unique, **{"check.crcs": True}) as reader:
        reader.subscribe([unique])
        assert values(take(reader, 500)) == list(range(500))


def test_keys_headers_tombstones_and_timestamps_are_read_as_written(
    bootstrap: str, unique: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", b"2"), ("none", None)]
    now_ms = int(time.time() * 1000)
    producer.produce(unique, b"value", b"key", timestamp=now_ms - 5000, headers=headers)
    producer.produce(unique, None, b"key")
    producer.produce(unique, b"", None)
    assert producer.flush(TIMEOUT_S) == 0
    with consumer(bootstrap, unique) as reader:
        reader.subscribe([unique])
        full, tombstone, empty = take(reader, 3)
    assert (full.key(), full.value(), full.headers()) == (b"key", b"value", headers)
    assert full.timestamp() == (TIMESTAMP_CREATE_TIME, now_ms - 5000)
    assert (tombstone.key(), tombstone.value(), tombstone.headers()) == (b"key", None, None)
    assert (empty.key(), empty.value()) == (None, b"")


def test_log_append_time_is_the_time_of_the_broker(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(unique, b"value", timestamp=1_000)
    assert producer.flush(TIMEOUT_S) == 0
    with consumer(bootstrap, unique) as reader:
        reader.subscribe([unique])
        (message,) = take(reader, 1)
    kind, timestamp_ms = message.timestamp()
    assert kind != TIMESTAMP_CREATE_TIME
    assert before_ms <= timestamp_ms <= int(time.time() * 1000)


def test_idempotent_producer_writes_each_record_once(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 2_000, **{"enable.idempotence": True, "linger.ms": 0})
    with consumer(bootstrap, unique) as reader:
        reader.subscribe([unique])
        assert values(take(reader, 2_000)) == list(range(2_000))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_acknowledged_with_each_value_of_acks(
    bootstrap: str, unique: str, acks: str
) -> None:
    create_topic(bootstrap, unique)
    produce(bootstrap, unique, 50, acks=acks)
    with consumer(bootstrap, unique) as reader:
        reader.subscribe([unique])
        assert values(take(reader, 50)) == list(range(50))


def test_record_larger_than_the_topic_allows_is_refused(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, config={"max.message.bytes": "2000"})
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(unique, bytes(3000), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    (error,) = errors
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_offsets_by_timestamp_and_watermarks_are_reported(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    producer = Producer({"bootstrap.servers": bootstrap})
    start_ms = int(time.time() * 1000) - 100_000
    for number in range(100):
        producer.produce(unique, b"v", timestamp=start_ms + number * 1000)
        if number % 10 == 9:
            assert producer.flush(TIMEOUT_S) == 0
    with consumer(bootstrap, unique) as reader:
        for offset, timestamp_ms in [(0, 0), (42, start_ms + 41_001), (99, start_ms + 99_000)]:
            asked = [TopicPartition(unique, 0, timestamp_ms)]
            (found,) = reader.offsets_for_times(asked, TIMEOUT_S)
            assert found.offset == offset
        beyond = [TopicPartition(unique, 0, start_ms + 1_000_000)]
        (found,) = reader.offsets_for_times(beyond, TIMEOUT_S)
        assert found.offset == -1  # librdkafka's OFFSET_END
        partition = TopicPartition(unique, 0)
        assert reader.get_watermark_offsets(partition, TIMEOUT_S) == (0, 100)


def test_end_of_partition_is_reported_and_consumer_seeks(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 20)
    with consumer(bootstrap, unique, **{"enable.partition.eof": True}) as reader:
        reader.assign([TopicPartition(unique, 0, 15)])
        assert values(take(reader, 5)) == list(range(15, 20))
        (end,) = reader.consume(1, TIMEOUT_S)
        error = end.error()
        assert error is not None
        assert error.code() == KafkaError._PARTITION_EOF
        reader.seek(TopicPartition(unique, 0, 3))
        assert values(take(reader, 2)) == [3, 4]


def test_offset_out_of_range_is_reset(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 5)
    with consumer(bootstrap, unique) as reader:
        reader.assign([TopicPartition(unique, 0, 1_000)])
        assert values(take(reader, 5)) == list(range(5))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_partitions_move_to_a_second_member_and_back(
    bootstrap: str, unique: str, strategy: str
) -> None:
    create_topic(bootstrap, unique, partitions=4)
    settings = {"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 300}
    with consumer(bootstrap, unique, **settings) as first:
        first.subscribe([unique])
        wait_until(lambda: len(first.assignment()) == 4, first)
        with consumer(bootstrap, unique, **settings) as second:
            second.subscribe([unique])
            wait_until(
                lambda: len(first.assignment()) == 2 == len(second.assignment()), first, second
            )
            held = {part.partition for part in first.assignment() + second.assignment()}
            assert held == {0, 1, 2, 3}
        wait_until(lambda: len(first.assignment()) == 4, first)


def test_cooperative_members_keep_partitions_that_do_not_move(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, partitions=4)
    revoked: list[int] = []

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        revoked.extend(part.partition for part in partitions)

    settings = {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 300,
    }
    with (
        consumer(bootstrap, unique, **settings) as first,
        consumer(bootstrap, unique, **settings) as second,
    ):
        first.subscribe([unique], on_revoke=on_revoke)
        wait_until(lambda: len(first.assignment()) == 4, first)
        second.subscribe([unique])
        wait_until(lambda: len(second.assignment()) == 2, first, second)
        assert len(revoked) == 2
        assert {part.partition for part in second.assignment()} == set(revoked)


def test_static_member_gets_its_partitions_back_without_a_rebalance(
    bootstrap: str, unique: str
) -> None:
    create_topic(bootstrap, unique, partitions=2)
    rebalances: list[str] = []
    with consumer(bootstrap, unique, **{"group.instance.id": "stays"}) as stays:
        stays.subscribe([unique], on_assign=lambda *_: rebalances.append("assigned"))
        with consumer(bootstrap, unique, **{"group.instance.id": "restarts"}) as restarts:
            restarts.subscribe([unique])
            wait_until(
                lambda: len(stays.assignment()) == 1 == len(restarts.assignment()), stays, restarts
            )
            held = restarts.assignment()
        before = len(rebalances)
        with consumer(bootstrap, unique, **{"group.instance.id": "restarts"}) as again:
            again.subscribe([unique])
            wait_until(lambda: again.assignment() == held, stays, again)
        assert len(rebalances) == before


def test_second_client_with_the_same_instance_id_fences_the_first(
    bootstrap: str, unique: str
) -> None:
    create_topic(bootstrap, unique)
    settings = {"group.instance.id": "one", "heartbeat.interval.ms": 200}
    with (
        consumer(bootstrap, unique, **settings) as first,
        consumer(bootstrap, unique, **settings) as second,
    ):
        first.subscribe([unique])
        wait_until(lambda: len(first.assignment()) == 1, first)
        second.subscribe([unique])
        fenced: list[int] = []

        def is_fenced() -> bool:
            second.poll(0.05)
            try:
                message = first.poll(0.05)
            except KafkaException as failure:
                fenced.append(failure.args[0].code())
            else:
                error = message.error() if message else None
                fenced.extend([error.code()] if error else [])
            return KafkaError._FATAL in fenced or KafkaError.FENCED_INSTANCE_ID in fenced

        wait_until(is_fenced)


def test_consumer_does_not_create_a_missing_topic(bootstrap: str, unique: str) -> None:
    with consumer(bootstrap, unique) as reader:
        reader.subscribe([unique])
        message = reader.poll(TIMEOUT_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
