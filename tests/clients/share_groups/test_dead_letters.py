"""Tests the dead-letter topics of share groups with Apache Kafka's share consumer (KIP-1191)."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import cast

import pytest
from confluent_kafka import Consumer, Message

from kwire.conformance.apache_kafka import ApacheKafka, command
from kwire.testing import BrokerProcess
from tests.clients.librdkafka import create_topic, produce
from tests.clients.programs.java_source import compiled
from tests.clients.share_groups.consumers import configure_group

pytestmark = [pytest.mark.java, pytest.mark.slow]

SOURCE = Path(__file__).with_name("DeadLetters.java")
RECORDS, KILLS, PATIENCE_S = 120, 3, 300.0
REJECTED, EXHAUSTED = (
    b"Offset rejected by client.",
    b"Offset delivery count exceeded the threshold.",
)
GIVEN_UP = {number: number % 4 for number in range(RECORDS) if number % 4 < 2}
SETTINGS = {
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def classes(apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(SOURCE, apache_kafka_libs, tmp_path_factory.mktemp("classes"))


@contextmanager
def member(classes: Path, bootstrap: str, name: str) -> Iterator[Counter[str]]:
    """A member that runs until the block ends; the counter has what it has printed so far."""
    words = command("DeadLetters", [bootstrap, name])
    words[words.index("-cp") + 1] += f":{classes}"
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    printed = Counter[str]()
    reader = Thread(target=lambda: printed.update(process.stdout or ()), daemon=True)
    reader.start()
    try:
        yield printed
        process.communicate("\n", timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()


class DeadLetterReader:
    """Reads a dead-letter topic, also while its broker is killed and started again."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer({**settings, "reconnect.backoff.max.ms": 200})
        self._consumer.subscribe([topic])
        self.letters: list[Message] = []

    def read_until(self, count: int) -> None:
        """Read until there are at least `count` dead letters."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.letters) < count:
            assert time.monotonic() < deadline, f"only {len(self.letters)} of {count} dead letters"
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.letters.append(message)

    def read_rest(self) -> None:
        """Read what else is there."""
        while (message := self._consumer.poll(2.0)) is not None:
            if message.error() is None:
                self.letters.append(message)

    def close(self) -> None:
        self._consumer.close()


def check(letters: list[Message], name: str, *, was_killed: bool) -> None:
    """Check that each record that was given up has one dead letter, with its headers."""
    offsets = Counter[int]()
    for letter in letters:
        headers = dict(cast("list[tuple[str, bytes]]", letter.headers() or []))
        assert list(headers) == [
            f"__dlq.errors.{each}"
            for each in ("topic", "partition", "offset", "group", "delivery.count", "message")
        ]
        offset = int(headers["__dlq.errors.offset"])
        offsets[offset] += 1
        assert headers["__dlq.errors.topic"] == headers["__dlq.errors.group"] == name.encode()
        assert headers["__dlq.errors.partition"] == b"0"
        assert letter.key() is None
        assert letter.value() == str(offset).encode(), "the value is copied"
        # After a kill, the cause follows from the delivery count: at the limit it is EXHAUSTED.
        if not was_killed or headers["__dlq.errors.delivery.count"] != b"2":
            expected = REJECTED if GIVEN_UP[offset] == 0 else EXHAUSTED
            assert headers["__dlq.errors.message"] == expected
    assert offsets == Counter(dict.fromkeys(GIVEN_UP, 1))


def begin(bootstrap: str, name: str) -> str:
    """Create the topics and the group; return the name of the dead-letter topic."""
    dead_letter_topic = f"dlq.{name}"
    create_topic(bootstrap, name)
    create_topic(
        bootstrap, dead_letter_topic, config={"errors.deadletterqueue.group.enable": "true"}
    )
    configure_group(
        bootstrap,
        name,
        **{
            "share.delivery.count.limit": "2",
            "errors.deadletterqueue.topic.name": dead_letter_topic,
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    )
    produce(bootstrap, name, RECORDS, **{"batch.num.messages": 10})
    return dead_letter_topic


def test_each_record_given_up_has_one_dead_letter_through_kills_of_the_broker(
    classes: Path, broker_factory: Callable[..., BrokerProcess], unique: str
) -> None:
    """The broker is killed (kill -9) while it writes dead letters, several times."""
    broker = broker_factory(SETTINGS)
    reader = DeadLetterReader(broker.bootstrap, begin(broker.bootstrap, unique))
    with member(classes, broker.bootstrap, unique):
        for kill in range(KILLS):
            reader.read_until(1 + kill * len(GIVEN_UP) // (KILLS + 1))
            broker.kill()
            broker.start()
        reader.read_until(len(GIVEN_UP))
    reader.read_rest()
    reader.close()
    check(reader.letters, unique, was_killed=True)


@pytest.mark.long
def test_dead_letters_are_the_same_on_apache_kafka(
    classes: Path, unique: str, tmp_path: Path
) -> None:
    with ApacheKafka(tmp_path, settings=SETTINGS) as node:
        reader = DeadLetterReader(node.bootstrap, begin(node.bootstrap, unique))
        with member(classes, node.bootstrap, unique):
            reader.read_until(len(GIVEN_UP))
        reader.read_rest()
        reader.close()
        check(reader.letters, unique, was_killed=False)
