"""A broker that looks older than it is, to stock clients and to who asks for more."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from kwire.control.versions import read_max_versions
from kwire.faults.rules import BadRule
from kwire.testing import Kafka

CAPS = {"Produce": 7, "Fetch": 11, "Metadata": 8, "FindCoordinator": 2, "JoinGroup": 4}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(max_versions=CAPS) as broker:
        yield broker


@pytest.mark.slow
def test_stock_clients_go_by_it(kafka: Kafka) -> None:
    kafka.reset()  # the next broker is as old
    topic = kafka.create_topic("t")
    with kafka.trace() as seen:
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce("t", "v")
        assert producer.flush(120) == 0
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "g"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        for _ in range(120):
            message = consumer.poll(1)
            if message is not None:
                break
        consumer.close()
    assert message is not None
    assert message.value() == b"v"
    topic.assert_holds(["v"])
    highest = {
        api: max(event["version"] for event in seen.events if event["api"] == api) for api in CAPS
    }
    assert all(highest[api] <= version for api, version in CAPS.items()), highest
    assert highest["Produce"] == 7
    told = next(event for event in seen.events if event["api"] == "ApiVersions")
    by_key = {each["apiKey"]: each["maxVersion"] for each in told["response"]["apiKeys"]}
    assert (by_key[0], by_key[1], by_key[3], by_key[8]) == (7, 11, 8, 10)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "is_answered"), [(8, True), (9, False)])
def test_who_asks_for_more_is_disconnected(kafka: Kafka, version: int, is_answered: bool) -> None:
    """As by a broker that does not know the version."""
    body = (
        bytes.fromhex("00000000 00 00 00") if version == 8 else bytes.fromhex("00 01 00 00 00 00")
    )
    header = struct.pack(">hhih", 3, version, 1, -1)
    with socket.create_connection(("127.0.0.1", kafka.port), 60) as link:
        link.sendall(struct.pack(">i", len(header + body)) + header + body)
        assert bool(link.recv(4)) is is_answered


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Prduce=7", "did you mean Produce"),
        ("Produce", "Produce is served from version 3 to 13"),
        ("Produce=2", "Produce is served from version 3 to 13"),
        ("Produce=99", "Produce is served from version 3 to 13"),
        ("ApiVersions=2", "ApiVersions is served in all its versions or not at all"),
        ("LeaderAndIsr=1", "LeaderAndIsr is served in all"),
    ],
)
def test_what_cannot_be(said: str, why: str) -> None:
    with pytest.raises(BadRule, match=why):
        read_max_versions(["Fetch=5", said])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--control", "0", "--max-version", "Prduce=7"], "did you mean Produce"),
        (["--max-version", "Produce=7"], "--max-version takes --control"),
    ],
)
def test_the_command_line_says_so(arguments: list[str], why: str) -> None:
    command = [sys.executable, "-m", "kwire.cli", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert why in done.stderr
