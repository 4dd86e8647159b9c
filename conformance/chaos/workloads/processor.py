"""A member of a group that consumes, processes and produces in transactions."""

from __future__ import annotations

import threading
import zlib

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kwire.conformance.chaos.checks.chain import ChainLink
from kwire.conformance.chaos.history import Type
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.workloads.group_reader import OFFSET_RESET
from kwire.conformance.chaos.workloads.producers import BACKOFF, parsed
from kwire.conformance.chaos.workloads.transactions import (
    CALL_S,
    Transactor,
    new_producer,
    timeout_ms,
)
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage

POLL_S, MORE_S = 0.05, 0.005
BATCH_MAX = (20, 100, 500)
SESSION_MS = 1000
LINGERS, ABORTS, ENDS = 0.01, 0.05, 0.005
"""Shares of all transactions: held open long, aborted on purpose, the last of its process."""
NONE_COMMITTED = "no previously committed offset available"
"""The begin of librdkafka's error if it finds no committed offset."""
Sender = Transactor[confluent_kafka.Producer]


def key_of(message: confluent_kafka.Message) -> bytes:
    """Return the record's first producer and partition, in which its numbers ascend."""
    assert message.value() is not None
    return message.key() or f"{parsed(message.value() or b'')[0]}/{message.partition()}".encode()


def name_of(key: bytes, value: bytes) -> str:
    return f"{key.decode()}:{parsed(value)[1]}"


class Processor(WorkloadClient):
    """Works until it is told to stop; after a fatal error it starts as a new producer."""

    def __init__(self, name: str, stage: WorkloadStage, link: ChainLink, own_id: str) -> None:
        """Prepare a member between two topics, with settings drawn from the plan's seed.

        `own_id` is its transactional id.
        """
        super().__init__(name, stage)
        self._source, self._target, self._group = link
        self._id = own_id
        self._rng = stream_of(stage.plan.seed, name)
        self._batch_max = self._rng.choice(BATCH_MAX)
        self._linger_s = max(timeout_ms(stage.plan), SESSION_MS) / 1000 * 1.2
        self._batch: list[confluent_kafka.Message] = []
        self._incarnations = 0
        self._is_astray = False
        """Whether the consumer has lost its position, so that a new one must replace it."""
        self._settings = {
            "bootstrap.servers": stage.bootstrap,
            "client.id": name,
            "group.id": self._group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": OFFSET_RESET,
            "session.timeout.ms": SESSION_MS,
            "max.poll.interval.ms": self._rng.choice([SESSION_MS, 60_000]),
            "heartbeat.interval.ms": 200,
            "partition.assignment.strategy": "range",
            "fetch.wait.max.ms": self._rng.choice([10, 100]),
            "fetch.error.backoff.ms": 50,
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
            **BACKOFF,
        }

    def run(self, stop: threading.Event) -> None:
        """Consume, process and produce until `stop` is set.

        After an error or at random a new producer and a new consumer take over, as if the process
        had started again.
        """
        while not stop.is_set():
            self._incarnations += 1
            process = f"{self.name}.{self._incarnations}"
            transactor = Transactor(self.stage, self._id, process, new_producer)
            if transactor.take_over() is not None:
                continue
            consumer = confluent_kafka.Consumer(self._settings)
            consumer.subscribe(
                [self._source],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_revoke,
            )
            self._is_astray = False
            while transactor.usable and not self._is_astray and not stop.is_set():
                self._fill_batch(consumer)
                if self._batch:
                    self._send_on(transactor, consumer, stop)
                if self._rng.random() < ENDS:
                    break  # as if another process took its place
            consumer.close()

    def _fill_batch(self, consumer: confluent_kafka.Consumer) -> None:
        """Read a few records; a rebalance meanwhile discards the records read before it."""
        self._batch = []
        began_ns = self.recorder.now_ns()
        message = consumer.poll(POLL_S)
        while message is not None:
            error = message.error()
            if error is None:
                self._batch.append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._is_astray = True
                if not self._has_committed_offsets(consumer, error):
                    self.recorder.note(self.name, "client_fatal", error=error.str())
            if len(self._batch) >= self._batch_max:
                break
            message = consumer.poll(MORE_S)
        self._note_records(began_ns)

    def _has_committed_offsets(self, consumer: confluent_kafka.Consumer, error: KafkaError) -> bool:
        """Whether the coordinator has committed offsets although librdkafka reports that it has
        none.

        If its assignment changes during a request for offsets, and the response to the old request
        has UNSTABLE_OFFSET_COMMIT, librdkafka 2.16 takes the -1 in it for a missing offset. So this
        asks the coordinator again.
        """
        if not error.str().startswith(NONE_COMMITTED):
            return False
        try:
            committed = consumer.committed(consumer.assignment(), CALL_S)
        except KafkaException as problem:
            self.recorder.note(self.name, "astray", error=problem.args[0].name())
            return (
                True  # no broker answers now; the checks examine the committed offsets at the end
            )
        offsets = [(f"{place.topic}-{place.partition}", place.offset) for place in committed]
        self.recorder.note(self.name, "astray", offsets=offsets)
        return all(offset >= 0 for _, offset in offsets)

    def _note_records(self, began_ns: int) -> None:
        """Record the batch that was read, from this time on."""
        if not self._batch:
            return
        records = [
            (
                f"{message.topic()}-{message.partition()}",
                message.offset(),
                *parsed(message.value() or b""),
            )
            for message in self._batch
        ]
        begun = self.recorder.invoke_at(began_ns, self.name, "poll", {"group": self._group})
        self.recorder.end(begun, Type.OK, records=records)

    def _send_on(
        self, transactor: Sender, consumer: confluent_kafka.Consumer, stop: threading.Event
    ) -> None:
        """Produce the batch and commit its offsets in one transaction, and record the outcome.

        Some transactions linger longer than their timeout. If this one fails, the consumer goes
        back to the first record of the batch.
        """
        offsets = self._positions(1)
        lingers = self._rng.random() < LINGERS

        def work() -> None:
            """Produce the batch, wait in some cases, and add the group's offsets to the
            transaction."""
            for message in self._batch:
                self._produce(transactor.producer, message)
            if lingers:
                stop.wait(self._rng.uniform(0.0, self._linger_s))
            transactor.producer.send_offsets_to_transaction(
                offsets, consumer.consumer_group_metadata(), CALL_S
            )

        positions = sorted((f"{place.topic}-{place.partition}", place.offset) for place in offsets)
        begun = self.recorder.invoke(self.name, "commit", group=self._group, offsets=positions)
        outcome, error = transactor.run(work, commit=self._rng.random() > ABORTS)
        self.recorder.end(begun, outcome, by=transactor.name, error=error)
        if outcome is not Type.OK and transactor.usable:
            self._rewind(transactor, consumer)

    def _produce(
        self, producer: confluent_kafka.Producer, message: confluent_kafka.Message
    ) -> None:
        """Produce the record to the target topic; a key always goes to the same partition."""
        key = key_of(message)
        producer.produce(
            self._target,
            message.value(),
            key,
            partition=zlib.crc32(key) % self.stage.plan.partitions,
        )

    def _positions(self, beyond: int) -> list[TopicPartition]:
        """Positions by partition: after its last record if `beyond` is 1, at its first one if it
        is 0."""
        order = self._batch if beyond else reversed(self._batch)
        positions = {message.partition(): (message.offset() or 0) + beyond for message in order}
        return [TopicPartition(self._source, p or 0, offset) for p, offset in positions.items()]

    def _rewind(self, transactor: Sender, consumer: confluent_kafka.Consumer) -> None:
        """Go back to the first record that was not sent on."""
        try:
            for position in self._positions(0):
                consumer.seek(position)
        except KafkaException:  # the partition was revoked; rejoining is always right
            transactor.usable = False

    # Rebalances; librdkafka calls these during `poll` and `close`

    def _on_assign(
        self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        self._note("assign", partitions)

    def _on_revoke(
        self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        """Discard the batch, which may belong to another member from now on."""
        self._batch = []
        self._note("revoke", partitions)

    def _note(self, f: str, partitions: list[TopicPartition]) -> None:
        names = [f"{place.topic}-{place.partition}" for place in partitions]
        self.recorder.note(self.name, f, group=self._group, partitions=names)
