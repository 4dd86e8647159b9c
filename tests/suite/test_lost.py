"""A broker that is killed and comes back: clients go on, and nothing acknowledged is lost."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.suite.clients import TIMEOUT_S, Client, Confluent, Record, taken, without_time
from tests.suite.conftest import Subject


def test_what_was_acknowledged_is_there(subject: Subject, client: Client, topic: str) -> None:
    records = [Record(b"%d" % number) for number in range(50)]
    client.write(topic, records)
    subject.lose()
    assert without_time(client.read(topic, 0, 0, 50)) == records


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_producer_goes_on(subject: Subject, topic: str, idempotent: bool) -> None:
    settings = {"bootstrap.servers": subject.bootstrap, "enable.idempotence": idempotent}
    producer = Producer({**settings, "message.timeout.ms": int(TIMEOUT_S * 1000)})
    producer.produce(topic, b"before")
    assert producer.flush(TIMEOUT_S) == 0
    subject.lose()
    producer.produce(topic, b"after")
    assert producer.flush(TIMEOUT_S) == 0
    found = Confluent(subject.bootstrap).read(topic, 0, 0, 2)
    assert [record.value for record in found] == [b"before", b"after"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_goes_on(subject: Subject, topic: str, unique: str, protocol: str) -> None:
    client = Confluent(subject.bootstrap)
    client.write(topic, [Record(b"before")])
    settings = {"bootstrap.servers": subject.bootstrap, "group.id": unique}
    reader = Consumer({**settings, "auto.offset.reset": "earliest", "group.protocol": protocol})
    reader.subscribe([topic])
    assert taken(reader, 1)[0].value() == b"before"
    reader.commit(asynchronous=False)
    subject.lose()
    client.write(topic, [Record(b"after")])
    found = None
    while found is None or found.error():
        found = reader.poll(TIMEOUT_S)
        assert found is not None
    assert found.value() == b"after"
    reader.close()


def test_a_transaction_goes_on(subject: Subject, topic: str, unique: str) -> None:
    producer = Producer({"bootstrap.servers": subject.bootstrap, "transactional.id": unique})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    producer.flush(TIMEOUT_S)
    subject.lose()
    producer.commit_transaction(TIMEOUT_S)
    assert [each.value for each in Confluent(subject.bootstrap).read(topic, 0, 0, 1)] == [b"v"]


def test_settings_of_a_topic_last(subject: Subject, admin: AdminClient, unique: str) -> None:
    made = NewTopic(unique, 2, 1, config={"retention.ms": "12345"})
    admin.create_topics([made])[unique].result(TIMEOUT_S)
    subject.lose()
    asked = ConfigResource(ResourceType.TOPIC, unique)
    found = admin.describe_configs([asked])[asked].result(TIMEOUT_S)
    assert found["retention.ms"].value == "12345"
