"""Shows librdkafka's handling of UNSTABLE_OFFSET_COMMIT, for which no broker is to blame."""

from __future__ import annotations

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.conformance.chaos.workloads.processor import NONE_COMMITTED
from kwire.testing import Kafka

pytestmark = pytest.mark.slow

PARTITIONS = 2
COMMITTED, PENDING = 7, 8
CALL_S = 20.0
DELAYS_MS = (1000, 5000, 25_000)
"""How late the response is, until the second member is quick enough to join before it."""


def member(kafka: Kafka, name: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "client.id": name,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "heartbeat.interval.ms": 100,
            "log_level": 0,
        }
    )


def offsets(offset: int) -> list[TopicPartition]:
    return [TopicPartition("t", index, offset) for index in range(PARTITIONS)]


def test_librdkafka_takes_a_response_for_an_older_assignment_as_no_offset() -> None:
    """A second member joins while the first one gets the response about a pending commit."""
    for delay_ms in DELAYS_MS:
        with Kafka() as kafka:
            if takes_it_as_no_offset(kafka, delay_ms):
                return
    raise AssertionError(f"not with a response after {DELAYS_MS} ms")


def takes_it_as_no_offset(kafka: Kafka, delay_ms: int) -> bool:
    """Whether the first member took it so.  Not if the response came before the second joined."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(CALL_S)
    outsider = member(kafka, "outsider")
    outsider.commit(offsets=offsets(COMMITTED), asynchronous=False)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": "x", "log_level": 0}
    )
    producer.init_transactions(CALL_S)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        offsets(PENDING), outsider.consumer_group_metadata(), CALL_S
    )
    first, second = member(kafka, "first"), member(kafka, "second")
    late = kafka.faults.add(api="OffsetFetch", client="first", delay_ms=delay_ms, carried_out=True)
    first.subscribe(["t"], on_assign=lambda *_: second.subscribe(["t"]))
    error = None
    while error is None:
        second.poll(0.01)
        message = first.poll(0.01)
        error = None if message is None else message.error()
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    late.remove()
    producer.commit_transaction(CALL_S)
    committed = first.committed(offsets(0), CALL_S)
    assert [position.offset for position in committed] == [PENDING] * PARTITIONS
    for consumer in (first, second, outsider):
        consumer.close()
    return error.str().startswith(NONE_COMMITTED)
