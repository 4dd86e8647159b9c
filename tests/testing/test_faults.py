"""Faults that befall stock clients, and what the clients make of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing import ControlError, Fault, Kafka, NotARecord, Topic

pytestmark = pytest.mark.slow

QUIET = {"log_level": 0, "retry.backoff.ms": 20, "reconnect.backoff.ms": 20}
WAIT_S = 120


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


@pytest.fixture
def topic(kafka: Kafka, unique: str) -> Iterator[Topic]:
    if not kafka.running:
        kafka.start()
    kafka.faults.clear()
    yield kafka.create_topic(unique, partitions=2)
    if kafka.running:
        kafka.faults.clear()


def producer(kafka: Kafka, **settings: str | int | bool) -> Producer:
    return Producer({"bootstrap.servers": kafka.bootstrap, **QUIET, **settings})


def send(sender: Producer, topic: Topic, *values: str, partition: int = 0) -> list[KafkaError]:
    """The errors of those that were not delivered."""
    errors: list[KafkaError] = []
    for value in values:
        sender.produce(
            topic.name,
            value,
            partition=partition,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert sender.flush(WAIT_S) == 0
    return errors


def consumer(kafka: Kafka, topic: Topic, **settings: str | int | bool) -> Consumer:
    group = {"group.id": topic.name, "auto.offset.reset": "earliest"}
    made = Consumer({"bootstrap.servers": kafka.bootstrap, **group, **QUIET, **settings})
    made.subscribe([topic.name])
    return made


def read(reader: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        message = reader.poll(1)
        if message is not None and not message.error():
            found.append(message.value())
    return found


def test_producer_retries_after_not_leader_or_follower(kafka: Kafka, topic: Topic) -> None:
    fault = kafka.faults.add("leader-moved", api="Produce", topic=topic.name, times=2)
    assert send(producer(kafka), topic, "v") == []
    topic.assert_holds(["v"])
    happened = fault.assert_happened(times=2)
    assert happened[0]["partitions"] == [{"topic": topic.name, "partition": 0}]
    assert happened[0]["error"] == "NOT_LEADER_OR_FOLLOWER"


def test_error_of_one_partition_leaves_the_other_served(kafka: Kafka, topic: Topic) -> None:
    fault = kafka.faults.add(
        api="Produce", topic=topic.name, partition=1, error="TOPIC_AUTHORIZATION_FAILED"
    )
    sender = producer(kafka, **{"linger.ms": 100})
    errors: list[KafkaError] = []
    for partition in (0, 1):
        sender.produce(
            topic.name,
            str(partition),
            partition=partition,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert sender.flush(WAIT_S) == 0
    assert [error.code() for error in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    topic.assert_holds(["0"])
    fault.assert_happened(times=1)


def test_lost_response_duplicates_a_record_unless_the_producer_is_idempotent(
    kafka: Kafka, topic: Topic
) -> None:
    kafka.faults.add("lost-reply", api="Produce", topic=topic.name, partition=0, times=1)
    kafka.faults.add("lost-reply", api="Produce", topic=topic.name, partition=1, times=1)
    assert send(producer(kafka), topic, "v", partition=0) == []
    topic.assert_holds(["v", "v"])
    assert send(producer(kafka, **{"enable.idempotence": True}), topic, "w", partition=1) == []
    topic.assert_holds(["v", "v", "w"])
    assert len(kafka.faults.happened) == 2


def test_error_after_the_append_makes_the_producer_write_twice(kafka: Kafka, topic: Topic) -> None:
    error = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    kafka.faults.add(api="Produce", topic=topic.name, error=error, carried_out=True, times=1)
    assert send(producer(kafka), topic, "v") == []
    topic.assert_holds(["v", "v"])


@pytest.mark.parametrize("truncate", [0, 3, 10])
def test_consumer_fetches_again_after_a_truncated_response(
    kafka: Kafka, topic: Topic, truncate: int
) -> None:
    topic.seed(["v"])
    fault = kafka.faults.add(api="Fetch", topic=topic.name, truncate=truncate, times=1)
    reader = consumer(kafka, topic)
    assert read(reader, 1) == [b"v"]
    fault.assert_happened(times=1)
    reader.close()


def test_fetch_session_gets_an_error_for_one_partition(kafka: Kafka, topic: Topic) -> None:
    """kwire's helpers and Java's consumers name partitions once, in a session."""
    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.consumer import Consumer as OwnConsumer

    with Cluster(kafka.bootstrap, client_id="own", timeout_s=WAIT_S) as cluster:
        reader = OwnConsumer(cluster)
        reader.assign({TopicPartition(topic.name, index): 0 for index in range(2)})
        reader.poll()
        fault = kafka.faults.add("leader-moved", topic=topic.name, partition=1, times=1)
        producer_ = producer(kafka, **{"client.id": "p"})
        assert send(producer_, topic, "a", partition=0) == []
        found: list[bytes | None] = []
        while len(found) < 1:
            found += [record.value for record in reader.poll()]
        assert fault.assert_happened(times=1)[0]["api"] == "Fetch"
        reader.close()


def refused_commit(reader: Consumer) -> KafkaError | None:
    """What librdkafka tells its caller, who may try again; None once it is committed."""
    try:
        reader.commit(asynchronous=False)
    except KafkaException as refusal:
        error: KafkaError = refusal.args[0]
        return error
    return None


@pytest.mark.parametrize("preset", ["coordinator-moved", "coordinator-loading"])
def test_commit_is_retried_when_its_coordinator_moves_or_loads(
    kafka: Kafka, topic: Topic, preset: str
) -> None:
    topic.seed(["v"])
    reader = consumer(kafka, topic, **{"enable.auto.commit": False})
    assert read(reader, 1) == [b"v"]
    fault = kafka.faults.add(preset, api="OffsetCommit", group=topic.name, times=1)
    deadline = time.monotonic() + WAIT_S
    while (refusal := refused_commit(reader)) is not None:
        assert refusal.retriable(), refusal
        assert time.monotonic() < deadline, refusal
    fault.assert_happened(times=1)
    reader.close()
    kafka.wait_until_consumed(topic.name)


def test_throttled_producer_is_muted_for_the_throttle_time(kafka: Kafka, topic: Topic) -> None:
    sender = producer(kafka, **{"queue.buffering.max.ms": 0})
    assert send(sender, topic, "first") == []
    fault = kafka.faults.add(api="Produce", topic=topic.name, throttle_ms=400, times=1)
    start = time.monotonic()
    assert send(sender, topic, "a") == []
    assert send(sender, topic, "b") == []
    assert time.monotonic() - start >= 0.4
    fault.assert_happened(times=1)


def test_slow_disk_preset_delays_a_produce(kafka: Kafka, topic: Topic) -> None:
    kafka.faults.add("slow-disk", topic=topic.name, delay_ms=300, times=1)
    start = time.monotonic()
    assert send(producer(kafka), topic, "a") == []
    assert time.monotonic() - start >= 0.3


def test_full_disk_preset_refuses_records_until_it_is_removed(kafka: Kafka, topic: Topic) -> None:
    sender = producer(kafka)
    with kafka.faults.add("full-disk", topic=topic.name) as fault:
        sender.produce(topic.name, "v")
        fault.assert_happened(within_s=WAIT_S)
        assert topic.records() == []
    assert sender.flush(WAIT_S) == 0
    topic.assert_holds(["v"])


def test_unanswered_produce_is_retried_after_the_request_timeout(
    kafka: Kafka, topic: Topic
) -> None:
    fault = kafka.faults.add(api="Produce", topic=topic.name, silence=True, times=1)
    # librdkafka waits `socket.timeout.ms` for a response, whatever the request timeout is.  On a
    # slow machine it may send the records more than twice.
    waits = {"request.timeout.ms": 500, "socket.timeout.ms": 2_000}
    sender = producer(kafka, **waits, **{"enable.idempotence": True})
    assert send(sender, topic, "v") == []
    topic.assert_holds(["v"])
    fault.assert_happened(times=1)


def test_idempotent_producer_writes_once_when_the_broker_dies_around_the_append(
    kafka: Kafka, topic: Topic
) -> None:
    sender = producer(kafka, **{"enable.idempotence": True})
    assert send(sender, topic, "0") == []
    for value, carried_out in (("1", False), ("2", True)):
        kafka.faults.add(api="Produce", topic=topic.name, die=True, carried_out=carried_out)
        sender.produce(topic.name, value, partition=0)
        deadline = time.monotonic() + WAIT_S
        while kafka.running:
            assert time.monotonic() < deadline
            sender.poll(0.01)
        kafka.start()
        assert sender.flush(WAIT_S) == 0
    topic.assert_holds(["0", "1", "2"])


def test_producer_gets_an_injected_producer_fenced(kafka: Kafka, topic: Topic) -> None:
    sender = producer(kafka, **{"transactional.id": topic.name})
    sender.init_transactions(WAIT_S)
    sender.begin_transaction()
    kafka.faults.add(api="EndTxn", transactional_id=topic.name, error="PRODUCER_FENCED")
    sender.produce(topic.name, "v")
    with pytest.raises(KafkaException) as refused:
        sender.commit_transaction(WAIT_S)
    assert refused.value.args[0].fatal()
    topic.assert_holds([], committed=True)


def test_producer_retries_after_stale_metadata(kafka: Kafka, topic: Topic) -> None:
    fault = kafka.faults.add("stale-metadata", topic=topic.name, times=2)
    assert send(producer(kafka), topic, "v") == []
    fault.assert_happened(times=2)


def test_create_topics_gets_an_injected_not_controller(kafka: Kafka, topic: Topic) -> None:
    name = f"{topic.name}-new"
    fault = kafka.faults.add(api="CreateTopics", topic=name, error="NOT_CONTROLLER", times=1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, **QUIET})
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name)])[name].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.NOT_CONTROLLER
    assert name not in kafka.topics()
    admin.create_topics([NewTopic(name)])[name].result(WAIT_S)
    fault.assert_happened(times=1)


def test_consumer_retries_find_coordinator_until_it_succeeds(kafka: Kafka, topic: Topic) -> None:
    topic.seed(["v"])
    script: list[dict[str, object]] = [{"error": "COORDINATOR_NOT_AVAILABLE"}, {"disconnect": True}]
    fault = kafka.faults.add(api="FindCoordinator", script=script)
    reader = consumer(kafka, topic)
    assert read(reader, 1) == [b"v"]
    fault.assert_happened(times=2)
    reader.close()


def test_rule_does_not_match_another_client(kafka: Kafka, topic: Topic) -> None:
    fault = kafka.faults.add(api="Produce", client="other*", disconnect=True)
    assert send(producer(kafka), topic, "v") == []
    fault.assert_happened(times=0)
    with pytest.raises(AssertionError, match="happen at least once; it happened 0 times"):
        fault.assert_happened()


def test_list_offsets_gets_an_injected_error(kafka: Kafka, topic: Topic) -> None:
    topic.seed(["v"])
    fault = kafka.faults.add("leader-moved", api="ListOffsets", topic=topic.name, times=2)
    reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic.name, **QUIET})
    partition = At(topic.name, 0)
    with pytest.raises(KafkaException) as refused:
        reader.get_watermark_offsets(partition, timeout=WAIT_S)
    assert refused.value.args[0].code() == KafkaError.NOT_LEADER_FOR_PARTITION
    assert reader.get_watermark_offsets(partition, timeout=WAIT_S)[0] == 0
    reader.close()
    fault.assert_happened(times=2)


def test_rules_are_loaded_from_a_file(kafka: Kafka, topic: Topic, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('[{"preset": "full-disk", "times": 1}, {"api": "Fetch", "delay_ms": 1}]')
    first, second = kafka.faults.load(rules)
    assert isinstance(first, Fault)
    assert send(producer(kafka), topic, "v") == []
    first.assert_happened(times=1)
    second.remove()
    rules.write_text("{")
    with pytest.raises(NotARecord, match="not JSON"):
        kafka.faults.load(rules)


def test_invalid_rule_is_refused_with_a_reason(kafka: Kafka, topic: Topic) -> None:
    with pytest.raises(ControlError, match="there is no error 'NOT_LEADER': did you mean"):
        kafka.faults.add(error="NOT_LEADER")
