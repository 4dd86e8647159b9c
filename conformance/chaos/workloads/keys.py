"""A workload of writers of keys on a compacted topic, whose log is cleaned all the time.

The checks: of each key the last written record remains, unless it was a tombstone; no older one
comes back; each key's records are in order; and the cleaner works when the faults are over.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import confluent_kafka

from kwire.conformance.chaos.checks import Check
from kwire.conformance.chaos.checks.answers import COMMON_CHECKS
from kwire.conformance.chaos.checks.keys import KEY_CHECKS
from kwire.conformance.chaos.history import JUDGE, Value
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.wire import EARLIEST, LATEST, Link
from kwire.conformance.chaos.workloads.producers import BACKOFF, CODECS, await_answers, note_answer
from kwire.conformance.chaos.workloads.workload import (
    Workload,
    WorkloadClient,
    WorkloadStage,
    attempt,
)

TOPIC = "keys"
WRITERS_MAX = 3
KEYS_MAX = 30
BURST_RECORDS_MAX = 20
PAUSE_S = 0.02
VALUE_BYTES_MAX = 300
TOMBSTONES = 0.2


class KeyWriter(WorkloadClient):
    """An idempotent producer with acks=all and its own keys; a key always has the same
    partition."""

    def __init__(self, name: str, stage: WorkloadStage) -> None:
        """Draw the keys and settings of this writer from the plan's seed."""
        super().__init__(name, stage)
        self._rng = stream_of(stage.plan.seed, name)
        self._keys = [f"{name}:{n}" for n in range(self._rng.randint(1, KEYS_MAX))]
        self._burst = self._rng.randint(1, BURST_RECORDS_MAX)
        self._sent: Counter[str] = Counter()
        self._settings = {
            "bootstrap.servers": stage.bootstrap,
            "client.id": name,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": self._rng.choice(CODECS),
            "linger.ms": self._rng.choice([0, 5]),
            "message.timeout.ms": 120_000,
            "log_level": 0,
            **BACKOFF,
        }

    def run(self, stop: threading.Event) -> None:
        """Write bursts until `stop` is set, then wait for all acknowledgements; record fatal
        errors."""
        producer = confluent_kafka.Producer(self._settings)
        try:
            while not stop.wait(PAUSE_S):
                for _ in range(self._burst):
                    self._put(producer)
                producer.poll(0)
            await_answers(producer)
        except (confluent_kafka.KafkaException, SystemError) as fatal:
            self.recorder.note(self.name, "client_fatal", error=str(fatal.__cause__ or fatal))

    def _put(self, producer: confluent_kafka.Producer) -> None:
        """Write the next record of a random key, which may be a tombstone."""
        at = self._rng.randrange(len(self._keys))
        key, partition = self._keys[at], at % self.stage.plan.partitions
        number = self._sent[key]
        self._sent[key] += 1
        tombstone = self._rng.random() < TOMBSTONES
        padding = bytes(self._rng.randrange(VALUE_BYTES_MAX))
        value = None if tombstone else b"%d:" % number + padding
        begun = self.recorder.invoke(
            self.name,
            "put",
            partition=f"{TOPIC}-{partition}",
            key=key,
            number=number,
            tombstone=tombstone,
        )
        answered = partial(note_answer, self.recorder, begun)
        producer.produce(TOPIC, value, key=key, partition=partition, on_delivery=answered)


class KeyWorkload(Workload):
    name: ClassVar[str] = "keys"
    checks: ClassVar[Sequence[Check]] = (*COMMON_CHECKS, *KEY_CHECKS)
    broker_settings: ClassVar[Mapping[str, str]] = {"log.cleaner.backoff.ms": "50"}

    def __init__(self, stage: WorkloadStage) -> None:
        """Draw the number of writers from the plan's seed."""
        super().__init__(stage)
        self._rng = stream_of(stage.plan.seed, "keys")
        self._partitions = list(range(stage.plan.partitions))
        writers = range(self._rng.randint(1, WRITERS_MAX))
        self._nudges = 0
        self._writers: list[WorkloadClient] = [KeyWriter(f"writer-{n}", stage) for n in writers]

    def prepare(self, link: Link) -> None:
        """Create the compacted topic, with intervals that keep the cleaner busy."""
        configs = self.stage.plan.topic_configs | {
            "cleanup.policy": "compact",
            "segment.ms": str(self._rng.choice([50, 200])),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": str(self._rng.choice([0, 300])),
            "file.delete.delay.ms": str(self._rng.choice([0, 1000])),
        }
        if TOPIC not in link.topics():
            link.create_topic(TOPIC, len(self._partitions), configs)

    def writers(self) -> list[WorkloadClient]:
        return self._writers

    def readers(self) -> list[WorkloadClient]:
        return []

    def caught_up(self, link: Link) -> bool:
        """Return whether something was cleaned; if not, another record lets an old segment roll."""
        logs = [_read(link, partition) for partition in self._partitions]
        if any(len(log["records"]) < log["end"] - log["start"] for log in logs):
            return True
        for partition in self._partitions:
            number = self._nudges
            self._nudges += 1
            asked = {"partition": f"{TOPIC}-{partition}", "key": f"{JUDGE}-{partition}"}
            work = partial(_nudge, link, partition, number)
            attempt(
                self.stage.recorder, JUDGE, "put", work, **asked, number=number, tombstone=False
            )
        return False

    def conclude(self, link: Link) -> None:
        """Record all records of all partitions at the end."""
        for partition in self._partitions:
            work = partial(_read, link, partition)
            named = f"{TOPIC}-{partition}"
            attempt(self.stage.recorder, JUDGE, "read_keys", work, partition=named)


def _nudge(link: Link, partition: int, number: int) -> Value:
    now_ms = time.time_ns() // 1_000_000
    key = f"{JUDGE}-{partition}".encode()
    return {"offset": link.produce(TOPIC, partition, b"%d:" % number, now_ms, key)}


def _read(link: Link, partition: int) -> Value:
    """Return all records of a partition, as the result of `read_keys`."""
    start = link.offsets(TOPIC, [partition], EARLIEST)[partition]
    end = link.offsets(TOPIC, [partition], LATEST)[partition]
    records: list[tuple[int, str, int | None]] = []
    for entry in link.entries(TOPIC, partition, start, end):
        number = int(entry.value.partition(b":")[0]) if entry.value else None
        records.append((entry.offset, (entry.key or b"").decode(), number))
    return {"start": start, "end": end, "records": records}
