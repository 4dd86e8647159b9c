"""Kafka Streams with `processing.guarantee=exactly_once_v2`, through a kill and a newcomer.

A word count with a repartition topic and a changelog (StreamsCount.java).  Whatever happens to its
instances, a reader of committed records sees the counts of each word as 1, 2, 3, ...: every update
once, in order, up to how often the word was written.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kwire.conformance.apache_kafka import command
from kwire.conformance.chaos.churn import streams as program
from tests.clients.librdkafka import TIMEOUT_S, create_topic
from tests.clients.programs import java_source
from tests.clients.waiting import eventually
from tests.conftest import BrokerFactory

pytestmark = [pytest.mark.java, pytest.mark.slow]

PARTITIONS = 4
VOCABULARY = [f"word-{number}" for number in range(40)]
AHEAD = 100
"""Words that are written ahead of their counts, so that there is always work."""
AT_LEAST = 300
"""Words that are counted before and after each change."""
QUICK = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
}
PATIENCE_S = 300.0
"""Limit for four starts of Java and two rebalances on a busy machine."""


@pytest.fixture(scope="module")
def compiled(apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the application's classes."""
    return java_source.compiled(
        program.SOURCE, apache_kafka_libs, tmp_path_factory.mktemp("classes")
    )


class Instance:
    """A process of the application; a restart uses the same state folder."""

    def __init__(self, classes: Path, folder: Path, arguments: list[str]) -> None:
        self._output = folder.with_suffix(".out")
        words = command("StreamsCount", arguments)
        words[words.index("-cp") + 1] += f":{classes}"
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._began = self._output.stat().st_size

    @property
    def output(self) -> str:
        return self._output.read_bytes()[self._began :].decode()

    @property
    def counts(self) -> bool:
        """Whether this instance has counted a word."""
        return "first word" in self.output

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT_S)

    def stop(self) -> None:
        """End it as an operator would; it must have been content to the end.

        Streams logs errors of three kinds that end well: about the state that a killed instance
        has left, about tasks that it gets while it stops, and about an OffsetFetch that was on its
        way when a heartbeat raised the member's epoch, which it repeats.
        """
        self._process.terminate()
        self._process.wait(TIMEOUT_S)
        assert "state NOT_RUNNING" in self.output, self.output
        errors = [line for line in self.output.splitlines() if " ERROR " in line]
        harmless = (
            "TaskCorruptedException",
            "Reconciliation failed for tasks",
            "OffsetFetch failed with STALE_MEMBER_EPOCH",
        )
        assert all(any(text in line for text in harmless) for line in errors), self.output


class Application:
    """The application's instances, which read words of one topic and write counts to another."""

    def __init__(self, bootstrap: str, name: str, protocol: str, classes: Path, at: Path) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.source, self.target = f"{name}-words", f"{name}-counts"
        self.halt = at / "halt"
        """While this file exists, an instance stops in the middle of its transaction."""
        self._protocol = protocol
        self._classes = classes
        self._at = at
        self._started: list[Instance] = []

    def start(self, name: str) -> Instance:
        """An instance with a state folder of that name."""
        arguments = [self.bootstrap, self.name, self.source, self.target]
        last = [str(self._at / name), str(self.halt), self._protocol]
        instance = Instance(self._classes, self._at / name, [*arguments, *last])
        self._started.append(instance)
        return instance

    def kill(self) -> None:
        for instance in self._started:
            instance.kill()


@pytest.fixture
def classic(bootstrap: str, unique: str, compiled: Path, tmp_path: Path) -> Iterator[Application]:
    application = Application(bootstrap, unique, "classic", compiled, tmp_path)
    yield application
    application.kill()


@pytest.fixture
def streams(
    broker_factory: BrokerFactory, unique: str, compiled: Path, tmp_path: Path
) -> Iterator[Application]:
    """The broker assigns its tasks (KIP-1071), and soon notices that an instance was killed."""
    broker = broker_factory(QUICK)
    application = Application(broker.bootstrap, unique, "streams", compiled, tmp_path)
    yield application
    application.kill()


class Reader:
    """A reader of committed records, which collects the updates of each word in order."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "unused"}
        self._consumer = Consumer({**settings, "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        self.updates: defaultdict[str, list[int]] = defaultdict(list)
        self.seen = 0

    def read(self) -> None:
        for message in self._consumer.consume(AHEAD, 0.1):
            assert message.error() is None, message.error()
            word, count = message.key(), message.value()
            assert word is not None
            assert count is not None
            self.updates[word.decode()].append(int.from_bytes(count))
            self.seen += 1

    def close(self) -> None:
        self._consumer.close()


class Writer:
    """Writes words to the partitions in turn, and never gets far ahead of their counts."""

    def __init__(self, bootstrap: str, topic: str, reader: Reader, rng: random.Random) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic = topic
        self._reader = reader
        self._rng = rng
        self.written: Counter[str] = Counter()

    def feed(self, until: Callable[[], bool]) -> None:
        """Write words until the condition holds."""
        self._wait(until, AHEAD)

    def drain(self) -> None:
        """Stop writing, and wait until all words are counted."""
        assert self._producer.flush(TIMEOUT_S) == 0
        self._wait(lambda: self._reader.seen >= self.written.total(), 0)

    def _wait(self, until: Callable[[], bool], ahead: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            count = self.written.total()
            assert time.monotonic() < deadline, f"{self._reader.seen} of {count} counts read"
            for number in range(count, min(self._reader.seen + ahead, count + ahead)):
                word = self._rng.choice(VOCABULARY)
                self._producer.produce(self._topic, word, partition=number % PARTITIONS)
                self.written[word] += 1
            self._producer.poll(0)
            self._reader.read()


@pytest.mark.long
def test_streams_count_is_exact_after_a_kill_and_a_new_instance(
    classic: Application, rng: random.Random
) -> None:
    count_through_a_kill_and_a_newcomer(classic, rng)


def test_streams_count_is_exact_with_tasks_assigned_by_the_broker(
    streams: Application, rng: random.Random
) -> None:
    count_through_a_kill_and_a_newcomer(streams, rng)


def count_through_a_kill_and_a_newcomer(application: Application, rng: random.Random) -> None:
    bootstrap, target, halt = application.bootstrap, application.target, application.halt
    for topic in (application.source, target):
        create_topic(bootstrap, topic, PARTITIONS)
    reader = Reader(bootstrap, target)
    writer = Writer(bootstrap, application.source, reader, rng)

    first = application.start("first")
    writer.feed(lambda: reader.seen >= AT_LEAST)
    halt.touch()  # the next word's transaction stays open
    writer.feed(lambda: has_open_transaction(bootstrap, target))
    first.kill()
    halt.unlink()
    first = application.start("first")
    second = application.start("second")
    writer.feed(lambda: first.counts and second.counts)
    both_count = reader.seen
    writer.feed(lambda: reader.seen >= both_count + AT_LEAST)
    writer.drain()
    check_internal_topics(bootstrap, application.name)
    first.stop()
    second.stop()
    reader.read()
    reader.close()
    expected = {word: list(range(1, count + 1)) for word, count in writer.written.items()}
    assert reader.updates == expected


def has_open_transaction(bootstrap: str, topic: str) -> bool:
    """Whether the last stable offset of the topic is below its end."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        looker = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation}
        )
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        ends.append([looker.get_watermark_offsets(place, TIMEOUT_S)[1] for place in places])
        looker.close()
    return ends[0] != ends[1]


def check_internal_topics(bootstrap: str, application: str) -> None:
    """Check the configs of the internal topics, and that processed records are deleted."""
    changelog = f"{application}-counts-changelog"
    repartition = f"{application}-words-repartition"
    assert setting(bootstrap, changelog, "cleanup.policy") == "compact"
    assert setting(bootstrap, repartition, "cleanup.policy") == "delete"
    assert setting(bootstrap, repartition, "retention.ms") == "-1"
    looker = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    places = [TopicPartition(repartition, index) for index in range(PARTITIONS)]
    eventually(
        lambda: all(looker.get_watermark_offsets(each, TIMEOUT_S)[0] > 0 for each in places), True
    )
    looker.close()


def setting(bootstrap: str, topic: str, name: str) -> str | None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    value: str | None = admin.describe_configs([resource])[resource].result(TIMEOUT_S)[name].value
    return value
