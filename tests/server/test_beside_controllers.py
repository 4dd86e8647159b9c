"""A broker beside a real KRaft controller of Apache Kafka 4.4.0, with a stock client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing import BrokerProcess
from tests.cluster.stores.kraft.real_controller import KafkaController
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.slow]

RECORDS = 500
SESSION = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}


@contextmanager
def controller(directory: Path, release: str | None = None) -> Iterator[KafkaController]:
    kafka = KafkaController(directory / "controller", settings=SESSION, release=release)
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.stop()


@contextmanager
def broker(
    directory: Path, beside: KafkaController, settings: Mapping[str, str] | None = None
) -> Iterator[BrokerProcess]:
    own = {
        "process.roles": "broker",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **SESSION,
        **beside.quorum,
        **(settings or {}),
    }
    with BrokerProcess(directory / "broker", own) as running:
        yield running


def produce(bootstrap: str, values: range, transactional_id: str | None = None) -> None:
    settings = {"bootstrap.servers": bootstrap, "acks": "all"}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    producer = Producer(settings)
    refused: list[object] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            refused.append(error)

    if transactional_id is not None:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
    for value in values:
        producer.produce("t", str(value), partition=value % 3, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    if transactional_id is not None:
        producer.commit_transaction(PATIENCE_S)
    assert refused == []


def consume(bootstrap: str, group: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
    )
    try:
        consumer.subscribe(["t"])
        values: list[int] = []
        while len(values) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{len(values)} records of {count}"
            assert message.error() is None, message.error()
            content = message.value()
            assert content is not None
            values.append(int(content))
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "release",
    [
        None,
        pytest.param("3.9", marks=pytest.mark.long),
        pytest.param("4.1", marks=pytest.mark.long),
    ],
)
def test_broker_serves_stock_clients_and_restarts_beside_a_controller(
    tmp_path: Path, release: str | None
) -> None:
    with controller(tmp_path, release) as beside:
        with broker(tmp_path, beside) as running:
            admin = AdminClient({"bootstrap.servers": running.bootstrap})
            admin.create_topics([NewTopic("t", 3, 1)])["t"].result(PATIENCE_S)
            produce(running.bootstrap, range(RECORDS))
            produce(running.bootstrap, range(RECORDS, 2 * RECORDS), "tx")
            assert sorted(consume(running.bootstrap, "g", 2 * RECORDS)) == [*range(2 * RECORDS)]
        with broker(tmp_path, beside) as running:
            produce(running.bootstrap, range(2 * RECORDS, 3 * RECORDS), "tx")
            assert sorted(consume(running.bootstrap, "g", RECORDS)) == [
                *range(2 * RECORDS, 3 * RECORDS)
            ]
            running.kill()
        with broker(tmp_path, beside) as running:
            found = consume(running.bootstrap, "other", 3 * RECORDS)
            assert sorted(found) == [*range(3 * RECORDS)]
            consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "g"})
            committed = consumer.committed([TopicPartition("t", each) for each in range(3)], 60)
            consumer.close()
            assert sum(each.offset for each in committed) >= 3 * RECORDS
