"""Those who write numbered records: librdkafka's idempotent producer, and one that never retries.

A record's value is `process:number:padding`; the number counts what that process wrote to that
partition, from 0 on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial

import confluent_kafka

from kwire.conformance.chaos.history import Event, Recorder, Type
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.wire import Refused
from kwire.conformance.chaos.workloads.workload import RECOVERY_S, Client, Stage

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BURST_RECORDS_MAX = 60
BURST_PAUSE_S = (0.005, 0.08)
RECORDS_MAX = 3000
"""Of one producer: where faults take long, on a machine that others use, the load ends all the same
while those who read can catch up."""
VALUE_BYTES_MAX = (20, 400, 4000)
PROBE_PAUSE_S = 0.03
PROBE_BYTES = 100
TAKEN_BACK = frozenset(
    {
        "KAFKA_STORAGE_ERROR",
        "REQUEST_TIMED_OUT",
        "SILENT",
        "CLOSED",
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    }
)
"""Answers that do not say that the record is not there. A leader that steps down tells so whoever
waits for its followers, and one of them may have the record and lead next."""
BACKOFF = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50}
"""Clients that are back soon after the broker is: a round is short."""


def parsed(value: bytes) -> tuple[str, int]:
    """Who wrote a record, and its number."""
    process, number, _ = value.split(b":", 2)
    return process.decode(), int(number)


class CountingProducer(Client):
    """acks=all, idempotent; it goes on until everything that it sent has an answer."""

    def __init__(self, name: str, stage: Stage, topic: str, records_max: int = RECORDS_MAX) -> None:
        super().__init__(name, stage)
        self._topic = topic
        self._records_max = records_max
        self._rng = stream_of(stage.plan.seed, name)
        self._value_bytes_max = self._rng.choice(VALUE_BYTES_MAX)
        self._burst = self._rng.randint(1, BURST_RECORDS_MAX)
        self._pause_s = max(self._rng.uniform(*BURST_PAUSE_S), self._burst / stage.plan.rate_max)
        self._sent: Counter[int] = Counter()
        self._settings = {
            "bootstrap.servers": stage.bootstrap,
            "client.id": name,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": self._rng.choice(CODECS),
            "linger.ms": self._rng.choice([0, 2, 20]),
            "max.in.flight": self._rng.randint(1, 5),
            "batch.num.messages": self._rng.choice([1, 10, 10_000]),
            "message.timeout.ms": 120_000,
            "log_level": 0,
            **BACKOFF,
        }

    def run(self, stop: threading.Event) -> None:
        producer = confluent_kafka.Producer(self._settings)
        try:
            while self._sent.total() < self._records_max and not stop.wait(self._pause_s):
                if len(producer) <= self.stage.plan.waiting_max:
                    for _ in range(self._burst):
                        self._send(producer)
                producer.poll(0)
            await_answers(producer)
        except (confluent_kafka.KafkaException, SystemError) as fatal:
            # What it cannot go on from comes out of whatever is called next; and out of callbacks
            # that are made meanwhile as a SystemError, which the other one has caused.
            self.recorder.note(self.name, "client_fatal", error=str(fatal.__cause__ or fatal))

    def _send(self, producer: confluent_kafka.Producer) -> None:
        partition = self._rng.randrange(self.stage.plan.partitions)
        number = self._sent[partition]
        self._sent[partition] += 1
        head = f"{self.name}:{number}:".encode()
        value = head + bytes([number % 251]) * self._rng.randrange(self._value_bytes_max)
        begun = self.recorder.invoke(
            self.name,
            "produce",
            partition=f"{self._topic}-{partition}",
            number=number,
            idempotent=True,
        )
        producer.produce(
            self._topic,
            value,
            partition=partition,
            on_delivery=partial(note_answer, self.recorder, begun),
        )


def note_answer(
    recorder: Recorder,
    begun: Event,
    error: confluent_kafka.KafkaError | None,
    message: confluent_kafka.Message,
) -> None:
    """What became of a record, in the history; librdkafka calls it when it gives one up, too."""
    if error is None:
        offset = message.offset()  # None where the broker named none: it had the record already
        recorder.end(begun, Type.OK, offset=-1 if offset is None else offset)
    else:
        recorder.end(begun, Type.INFO, error=error.name())


def await_answers(producer: confluent_kafka.Producer) -> None:
    """For as long as some come: a machine may be slow, but none in RECOVERY_S is too few."""
    left = len(producer)
    while left:
        before, left = left, producer.flush(RECOVERY_S)
        if left >= before:
            return


class Prober(Client):
    """acks=all, one record at a time on one connection, each sent once, every answer noted."""

    def __init__(self, name: str, stage: Stage, topic: str) -> None:
        super().__init__(name, stage)
        self._topic = topic
        self._rng = stream_of(stage.plan.seed, name)
        self._sent: Counter[int] = Counter()

    def run(self, stop: threading.Event) -> None:
        with self.stage.linked() as link:
            while not stop.wait(PROBE_PAUSE_S):
                partition = self._rng.randrange(self.stage.plan.partitions)
                number = self._sent[partition]
                self._sent[partition] += 1
                value = f"{self.name}:{number}:".encode() + b"x" * PROBE_BYTES
                named = f"{self._topic}-{partition}"
                begun = self.recorder.invoke(self.name, "produce", partition=named, number=number)
                try:
                    now_ms = time.time_ns() // 1_000_000
                    offset = link.produce(self._topic, partition, value, now_ms)
                except Refused as refused:
                    known = Type.INFO if refused.error in TAKEN_BACK else Type.FAIL
                    self.recorder.end(begun, known, error=refused.error)
                else:
                    self.recorder.end(begun, Type.OK, offset=offset)
