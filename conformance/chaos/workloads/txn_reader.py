"""A reader of committed records that reads a whole topic from its start, without a group."""

from __future__ import annotations

import threading
from collections.abc import Callable

import confluent_kafka
from confluent_kafka import KafkaError, TopicPartition

from kwire.conformance.chaos.history import Type
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.wire import LATEST, Link
from kwire.conformance.chaos.workloads.producers import BACKOFF
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage

POLL_S = 0.05
RECORDS_MAX = 500
"""Limit on the records of one read operation in the history."""

MessageName = Callable[[confluent_kafka.Message], str]


class TxnReader(WorkloadClient):
    def __init__(
        self, name: str, stage: WorkloadStage, topic: str, partitions: int, named: MessageName
    ) -> None:
        """Prepare a reader of committed records; its fetch sizes are drawn from the plan's seed."""
        super().__init__(name, stage)
        self._topic = topic
        self._partitions = list(range(partitions))
        self._named = named
        self._ends: dict[int, int] = {}
        rng = stream_of(stage.plan.seed, name)
        self._settings = {
            "bootstrap.servers": stage.bootstrap,
            "client.id": name,
            "group.id": name,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": rng.choice([10, 100, 500]),
            "fetch.message.max.bytes": rng.choice([500, 20_000, 1_000_000]),
            "fetch.error.backoff.ms": 50,
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
            **BACKOFF,
        }

    def has_read_all(self, link: Link) -> bool:
        """Return whether it has read up to the last stable offsets; may be called from another
        thread."""
        ends = link.offsets(self._topic, self._partitions, LATEST, stable=True)
        return all(end == 0 or self._ends.get(p, -1) >= end for p, end in ends.items())

    def run(self, stop: threading.Event) -> None:
        """Read all partitions from their start until `stop` is set."""
        consumer = confluent_kafka.Consumer(self._settings)
        consumer.assign([TopicPartition(self._topic, p, 0) for p in self._partitions])
        while not stop.is_set():
            self._poll(consumer)
        consumer.close()

    def _poll(self, consumer: confluent_kafka.Consumer) -> None:
        """Read what is there; record the records and remember the ends of partitions."""
        began_ns = self.recorder.now_ns()
        records: list[tuple[str, int, str]] = []
        ends: dict[int, int] = {}
        for message in consumer.consume(RECORDS_MAX, POLL_S):
            partition, offset, error = message.partition(), message.offset(), message.error()
            assert partition is not None
            if error is None:
                assert offset is not None
                records.append((f"{self._topic}-{partition}", offset, self._named(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[partition] = offset or 0
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self.recorder.note(self.name, "client_fatal", error=error.str())
        if records:
            begun = self.recorder.invoke_at(began_ns, self.name, "read", {"topic": self._topic})
            self.recorder.end(begun, Type.OK, records=records)
        self._ends.update(ends)
