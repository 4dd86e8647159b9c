"""A Kafka Streams application with `group.protocol=streams` that counts words exactly once."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer, TopicPartition

from kwire.conformance import apache_kafka, java
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.workloads.producers import BACKOFF, await_answers
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage

SOURCE = Path(__file__).with_name("StreamsCount.java")
APPLICATION = "churn-streams"
WORDS, COUNTS = "churn-words", "churn-counts"
VOCABULARY = [f"word-{number}" for number in range(40)]
PAUSE_S, AT_ONCE = 0.1, 2
"""Two words and then a pause: 20 words in a second."""
HEAP = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(frozen=True, slots=True)
class Program:
    """The compiled application; each instance has a state folder, which it uses again."""

    classes: Path
    folder: Path
    bootstrap: str

    @classmethod
    def compiled(cls, folder: Path, bootstrap: str) -> Program:
        """Compile the application. Raises JavaMissing, ApacheKafkaError, CompilationFailed."""
        classes = folder / "classes"
        classes.mkdir()
        java.compiled(SOURCE, apache_kafka.libs(), classes)
        return cls(classes, folder, bootstrap)

    def command(self, name: str) -> list[str]:
        """Return the command line of an instance with a state folder of this name."""
        never = self.folder / "never"
        arguments = [self.bootstrap, APPLICATION, WORDS, COUNTS, self.folder / name, never]
        return apache_kafka.command(
            "StreamsCount", [*map(str, arguments), "streams"], jvm=HEAP, plugins=[self.classes]
        )


class WordWriter(WorkloadClient):
    def __init__(self, name: str, stage: WorkloadStage) -> None:
        super().__init__(name, stage)
        self._rng = stream_of(stage.plan.seed, name)

    def run(self, stop: threading.Event) -> None:
        """Produce random words until `stop` is set, then wait for all acknowledgements."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.stage.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "log_level": 0,
                **BACKOFF,
            }
        )
        while not stop.wait(PAUSE_S):
            for _ in range(AT_ONCE):
                partition = self._rng.randrange(self.stage.plan.partitions)
                producer.produce(WORDS, self._rng.choice(VOCABULARY), partition=partition)
            producer.poll(0)
        await_answers(producer)


class CountReader(WorkloadClient):
    """Reads the committed updates of all words; `seen` is their number, for other threads."""

    def __init__(self, name: str, stage: WorkloadStage) -> None:
        super().__init__(name, stage)
        self.updates: defaultdict[str, list[int]] = defaultdict(list)
        self.seen = 0

    def run(self, stop: threading.Event) -> None:
        """Read the committed counts from the start of each partition until `stop` is set.

        It has no group: partitions are assigned by hand, and the group id is only required.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.stage.bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "log_level": 0,
                **BACKOFF,
            }
        )
        partitions = range(self.stage.plan.partitions)
        consumer.assign([TopicPartition(COUNTS, index, 0) for index in partitions])
        while not stop.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    self._take(message)
        consumer.close()

    def _take(self, message: confluent_kafka.Message) -> None:
        """Note the count that the record has for its word."""
        word, count = message.key(), message.value()
        assert word is not None
        assert count is not None
        self.updates[word.decode()].append(int.from_bytes(count))
        self.seen += 1
