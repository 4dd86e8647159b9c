"""Tests that stock clients continue after a restart of the broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from kafka import KafkaConsumer

from kwire.testing import BrokerProcess

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0
TOPIC = "over-restart"

End = Callable[[BrokerProcess], None]


def stop(broker: BrokerProcess) -> None:
    broker.stop()


def kill(broker: BrokerProcess) -> None:
    broker.kill()


def take(consumer: Consumer, count: int) -> list[int]:
    messages = consumer.consume(count, TIMEOUT_S)
    assert [message.error() for message in messages] == [None] * count
    return [int(message.value() or b"-1") for message in messages]


@pytest.mark.parametrize("end", [stop, kill])
def test_running_producer_and_consumer_continue_after_a_restart(
    broker: BrokerProcess, end: End
) -> None:
    """The logs restore an idempotent producer's sequence numbers and a group's offsets."""
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    settings = {"bootstrap.servers": broker.bootstrap, "reconnect.backoff.max.ms": 200}
    producer = Producer({**settings, "enable.idempotence": True})
    consumer = Consumer({**settings, "group.id": "group", "auto.offset.reset": "earliest"})
    for number in range(100):
        producer.produce(TOPIC, str(number).encode(), on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    consumer.subscribe([TOPIC])
    assert take(consumer, 100) == list(range(100))
    consumer.commit(asynchronous=False)
    end(broker)
    for number in range(100, 200):
        producer.produce(TOPIC, str(number).encode(), on_delivery=delivered)
    broker.start()
    assert producer.flush(TIMEOUT_S) == 0
    assert take(consumer, 100) == list(range(100, 200))
    consumer.close()
    assert not errors


@pytest.mark.parametrize("end", [stop, kill])
def test_group_resumes_at_its_committed_offset_after_a_restart(
    broker: BrokerProcess, end: End
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(20):
        producer.produce(TOPIC, str(number).encode())
    assert producer.flush(TIMEOUT_S) == 0
    settings = {"bootstrap_servers": broker.bootstrap, "group_id": "group"}
    first = KafkaConsumer(TOPIC, auto_offset_reset="earliest", max_poll_records=7, **settings)
    records = [record for _, record in zip(range(7), first, strict=False)]
    assert [int(record.value) for record in records] == list(range(7))
    first.commit()
    first.close()
    end(broker)
    broker.start()
    second = KafkaConsumer(TOPIC, consumer_timeout_ms=int(TIMEOUT_S * 1000), **settings)
    record = next(iter(second))
    assert (record.offset, int(record.value)) == (7, 7)
    second.close()
