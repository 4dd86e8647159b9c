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
    with Kafka() as kafka:
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
        late = kafka.faults.add(api="OffsetFetch", client="first", delay_ms=1000, carried_out=True)
        first.subscribe(["t"], on_assign=lambda *_: second.subscribe(["t"]))
        error = None
        while error is None:
            second.poll(0.01)
            message = first.poll(0.01)
            error = None if message is None else message.error()
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
        assert error.str().startswith(NONE_COMMITTED)
        late.remove()
        producer.commit_transaction(CALL_S)
        committed = first.committed(offsets(0), CALL_S)
        assert [position.offset for position in committed] == [PENDING] * PARTITIONS
        for consumer in (first, second, outsider):
            consumer.close()
