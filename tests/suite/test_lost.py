"""Tests that clients continue, and no acknowledged record is lost, when the broker is killed."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.suite.clients import TIMEOUT_S, Client, Confluent, Record, taken, without_time
from tests.suite.conftest import Subject


def test_acknowledged_records_survive_a_kill(subject: Subject, client: Client, topic: str) -> None:
    records = [Record(b"%d" % number) for number in range(50)]
    client.write(topic, records)
    subject.lose()
    assert without_time(client.read(topic, 0, 0, 50)) == records


@pytest.mark.parametrize("idempotent", [True, False])
def test_producer_continues_after_a_kill(subject: Subject, topic: str, idempotent: bool) -> None:
    settings = {"bootstrap.servers": subject.bootstrap, "enable.idempotence": idempotent}
    producer = Producer({**settings, "message.timeout.ms": int(TIMEOUT_S * 1000)})
    producer.produce(topic, b"before")
    assert producer.flush(TIMEOUT_S) == 0
    subject.lose()
    producer.produce(topic, b"after")
    assert producer.flush(TIMEOUT_S) == 0
    records = Confluent(subject.bootstrap).read(topic, 0, 0, 2)
    assert [record.value for record in records] == [b"before", b"after"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_continues_after_a_kill(
    subject: Subject, topic: str, unique: str, protocol: str
) -> None:
    client = Confluent(subject.bootstrap)
    client.write(topic, [Record(b"before")])
    settings = {"bootstrap.servers": subject.bootstrap, "group.id": unique}
    reader = Consumer({**settings, "auto.offset.reset": "earliest", "group.protocol": protocol})
    reader.subscribe([topic])
    assert taken(reader, 1)[0].value() == b"before"
    reader.commit(asynchronous=False)
    subject.lose()
    client.write(topic, [Record(b"after")])
    message = None
    while message is None or message.error():
        message = reader.poll(TIMEOUT_S)
        assert message is not None
    assert message.value() == b"after"
    reader.close()


def test_transaction_continues_after_a_kill(subject: Subject, topic: str, unique: str) -> None:
    producer = Producer({"bootstrap.servers": subject.bootstrap, "transactional.id": unique})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    producer.flush(TIMEOUT_S)
    subject.lose()
    producer.commit_transaction(TIMEOUT_S)
    assert [record.value for record in Confluent(subject.bootstrap).read(topic, 0, 0, 1)] == [b"v"]


def test_topic_configs_survive_a_kill(subject: Subject, admin: AdminClient, unique: str) -> None:
    new_topic = NewTopic(unique, 2, 1, config={"retention.ms": "12345"})
    admin.create_topics([new_topic])[unique].result(TIMEOUT_S)
    subject.lose()
    resource = ConfigResource(ResourceType.TOPIC, unique)
    configs = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert configs["retention.ms"].value == "12345"
