"""Requests and answers as a test sees them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kwire.testing import Kafka

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


def produce(kafka: Kafka, topic: str, **settings: str | int) -> int:
    """How many were not delivered."""
    settings = {"bootstrap.servers": kafka.bootstrap, "log_level": 0, **settings}
    errors: list[object] = []
    producer = Producer(settings)
    producer.produce(topic, "v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(120) == 0
    return sum(error is not None for error in errors)


def test_trace_has_requests_with_their_responses(kafka: Kafka, unique: str, tmp_path: Path) -> None:
    topic = kafka.create_topic(unique)
    with kafka.trace(api=["Produce", "Metadata"]) as seen:
        assert produce(kafka, topic.name) == 0
    by_api = {event["api"]: event for event in seen.events}
    assert set(by_api) == {"Produce", "Metadata"}
    produced = by_api["Produce"]
    assert produced["partitions"] == [{"topic": topic.name, "partition": 0}]
    (data,) = produced["request"]["topicData"][0]["partitionData"]
    assert data["records"][0]["records"] == 1
    assert produced["durationMs"] > 0
    before = len(seen.events)
    produce(kafka, topic.name)
    assert len(seen.events) == before
    assert seen.save(tmp_path / "trace.jsonl") == len(seen.events)
    lines = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [e["number"] for e in seen.events]


def test_trace_has_a_refusal_as_the_client_gets_it(unique: str) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Kafka(settings=settings) as guarded:
        denied, open_ = (guarded.create_topic(f"{unique}-{each}").name for each in "ab")
        admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
        who = ("User:ANONYMOUS", "*", AclOperation.ALL, AclPermissionType.DENY)
        acl = AclBinding(ResourceType.TOPIC, denied, ResourcePatternType.LITERAL, *who)
        admin.create_acls([acl])[acl].result(60)
        with guarded.trace(api="Metadata") as seen:
            for topic in (denied, open_):
                admin.list_topics(topic, timeout=60)
            with pytest.raises(KafkaException, match="authorization"):
                admin.describe_topics(TopicCollection([denied]))[denied].result(60)
    told = {
        topic["name"]: topic["errorCode"]
        for event in seen.events
        for topic in event["response"]["topics"]
    }
    assert told[denied] == "TOPIC_AUTHORIZATION_FAILED"
    assert told[open_] == "NONE"


def test_trace_has_the_fault_injected_into_a_request(kafka: Kafka, unique: str) -> None:
    topic = kafka.create_topic(unique)
    script: list[dict[str, object]] = [
        {"error": "NOT_LEADER_OR_FOLLOWER"},
        {"disconnect": True},
        {"truncate": 2},
        {"throttle_ms": 1},
    ]
    quick = {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10}
    with (
        kafka.faults.add(api="Produce", topic=topic.name, script=script) as fault,
        kafka.trace(api="Produce", topic=topic.name) as seen,
    ):
        assert produce(kafka, topic.name, **quick) == 0
        assert produce(kafka, topic.name, **quick) == 0
    first, second, third, fourth, *rest = seen.events
    assert {each["fault"] for each in (first, second, third, fourth)} == {fault.number}
    assert first["errors"] == ["NOT_LEADER_OR_FOLLOWER"]
    assert (second["ending"], "response" in second) == ("disconnect", False)
    assert (third["ending"], "response" in third) == ("truncate", True)
    assert fourth["response"]["throttleTimeMs"] == 1
    assert all("fault" not in each for each in rest)


def test_delayed_response_is_recorded_when_it_is_sent(kafka: Kafka, unique: str) -> None:
    from confluent_kafka import Consumer

    topic = kafka.create_topic(unique)
    with kafka.trace(api="Fetch", topic=topic.name) as seen:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": unique,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 200,
            }
        )
        consumer.subscribe([topic.name])
        deadline = time.monotonic() + 60
        while not seen.events and time.monotonic() < deadline:
            consumer.poll(0.05)
        consumer.close()
    assert seen.events[0]["durationMs"] >= 190


def test_unanswered_request_is_recorded_at_once(kafka: Kafka, unique: str) -> None:
    topic = kafka.create_topic(unique)
    with (
        kafka.faults.add(api="Produce", topic=topic.name, silence=True),
        kafka.trace(api="Produce", topic=topic.name) as seen,
    ):
        assert produce(kafka, topic.name, **{"message.timeout.ms": 1000}) == 1
    assert seen.events[0]["ending"] == "silence"
