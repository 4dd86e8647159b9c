"""Producers of numbered records: an idempotent one of librdkafka, and one without retries.

A record's value is `process:number:padding`; the number counts the records of that process in that
partition, from 0.
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
from kwire.conformance.chaos.workloads.workload import RECOVERY_S, WorkloadClient, WorkloadStage

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BURST_RECORDS_MAX = 60
BURST_PAUSE_S = (0.005, 0.08)
RECORDS_MAX = 3000
"""Limit on the records of one producer.

If faults take long on a busy machine, the load still ends while the readers can catch up.
"""
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
"""Errors after which the record may still be in the log.

A leader that resigns sends such an error to producers that wait for its followers; one of these may
have the record and become the leader.
"""
BACKOFF = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50}
"""Short backoffs, so that clients return soon after the broker; a round is short."""


def parsed(value: bytes) -> tuple[str, int]:
    """Return the producer of a record, and its number."""
    process, number, _ = value.split(b":", 2)
    return process.decode(), int(number)


class CountingProducer(WorkloadClient):
    """An idempotent producer with acks=all; it ends when all its records have an answer."""

    def __init__(
        self, name: str, stage: WorkloadStage, topic: str, records_max: int = RECORDS_MAX
    ) -> None:
        """Draw the bursts and the producer's settings from the plan's seed."""
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
        """Produce bursts until `stop` is set or `records_max` are sent, then wait for all answers.

        A burst is left out while more than `waiting_max` records are not acknowledged.
        """
        producer = confluent_kafka.Producer(self._settings)
        try:
            while self._sent.total() < self._records_max and not stop.wait(self._pause_s):
                if len(producer) <= self.stage.plan.waiting_max:
                    for _ in range(self._burst):
                        self._send(producer)
                producer.poll(0)
            await_answers(producer)
        except (confluent_kafka.KafkaException, SystemError) as fatal:
            # The call after a fatal error raises it.  If a callback runs meanwhile, Python raises a
            # SystemError instead, with the fatal error as its cause.
            self.recorder.note(self.name, "client_fatal", error=str(fatal.__cause__ or fatal))

    def _send(self, producer: confluent_kafka.Producer) -> None:
        """Produce the next numbered record to a random partition.

        251 is prime, so that the padding of neighbouring records differs.
        """
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
    """Record the result of a record; librdkafka also calls this when it gives up a record."""
    if error is None:
        offset = message.offset()  # None if the broker returned none, for a duplicate
        recorder.end(begun, Type.OK, offset=-1 if offset is None else offset)
    else:
        recorder.end(begun, Type.INFO, error=error.name())


def await_answers(producer: confluent_kafka.Producer) -> None:
    """Wait for all answers, for as long as some arrive within RECOVERY_S."""
    left = len(producer)
    while left:
        before, left = left, producer.flush(RECOVERY_S)
        if left >= before:
            return


class Prober(WorkloadClient):
    """Sends one record at a time with acks=all, without retries, and records every response."""

    def __init__(self, name: str, stage: WorkloadStage, topic: str) -> None:
        super().__init__(name, stage)
        self._topic = topic
        self._rng = stream_of(stage.plan.seed, name)
        self._sent: Counter[int] = Counter()

    def run(self, stop: threading.Event) -> None:
        """Produce one record at a time until `stop` is set, and never repeat one.

        An error after which the record may still be there leaves the outcome open.
        """
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
                    result = Type.INFO if refused.error in TAKEN_BACK else Type.FAIL
                    self.recorder.end(begun, result, error=refused.error)
                else:
                    self.recorder.end(begun, Type.OK, offset=offset)
