"""A member of a share group (librdkafka), which acknowledges each record at random."""

from __future__ import annotations

import random
import threading

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer

from kwire.conformance.chaos.history import Type
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.workloads.producers import BACKOFF
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage

POLL_S, COMMIT_S = 0.2, 20.0
ACCEPTS, RELEASES = 0.9, 0.07
"""Shares of all records; the rest are rejected."""
NAMES = {
    AcknowledgeType.ACCEPT: "accept",
    AcknowledgeType.RELEASE: "release",
    AcknowledgeType.REJECT: "reject",
}
Acknowledged = tuple[str, int, int, str]
"""Partition, offset, delivery count, and the kind of acknowledgement."""


class ShareReader(WorkloadClient):
    """Polls and acknowledges records; it records two operations:

    `deliver` {group} -> {records: [[partition, offset, count], ...]}: the records of one poll.
    `acknowledge` {group, partition, records: [[offset, count, what], ...]}: `ok` once the broker
    has confirmed it, `fail` if the broker has refused all of it.
    """

    def __init__(self, name: str, stage: WorkloadStage, topic: str, group: str) -> None:
        """Prepare a member of the group, with settings drawn from the plan's seed."""
        super().__init__(name, stage)
        self._topic = topic
        self._group = group
        self._rng = stream_of(stage.plan.seed, name)
        self._settings = {
            "bootstrap.servers": stage.bootstrap,
            "client.id": name,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": self._rng.choice([20, 200]),
            "fetch.wait.max.ms": self._rng.choice([50, 500]),
            "log_level": 0,
            **BACKOFF,
        }

    def run(self, stop: threading.Event) -> None:
        """Fetch and acknowledge records until `stop` is set; each batch is committed before the
        next."""
        consumer = ShareConsumer(self._settings)
        consumer.subscribe([self._topic])
        while not stop.is_set():
            records = self._poll(consumer)
            if records:
                self._commit(consumer, records)
        consumer.close()

    def _poll(self, consumer: ShareConsumer) -> list[Acknowledged]:
        """Return the fetched records with their acknowledgements, and record the delivery.

        The list is empty if nothing came, or if the client reported an error.
        """
        began_ns = self.recorder.now_ns()
        try:
            messages = [message for message in consumer.poll(POLL_S) if message.error() is None]
        except KafkaException as failure:
            self.recorder.note(self.name, "unread", error=_name(failure))
            return []
        if not messages:
            return []
        records = [self._acknowledge(consumer, message) for message in messages]
        begun = self.recorder.invoke_at(began_ns, self.name, "deliver", {"group": self._group})
        self.recorder.end(begun, Type.OK, records=[record[:3] for record in records])
        return records

    def _acknowledge(self, consumer: ShareConsumer, message: Message) -> Acknowledged:
        """Acknowledge one record at random; return its partition, offset, delivery count and
        kind."""
        what = drawn(self._rng)
        consumer.acknowledge(message, what)
        offset = message.offset()
        assert offset is not None
        partition = f"{message.topic()}-{message.partition()}"
        return partition, offset, message.delivery_count() or 0, NAMES[what]

    def _commit(self, consumer: ShareConsumer, records: list[Acknowledged]) -> None:
        """Send the acknowledgements; the history has their begin before they are sent."""
        begun = {
            partition: self.recorder.invoke(
                self.name,
                "acknowledge",
                group=self._group,
                partition=partition,
                records=[record[1:] for record in records if record[0] == partition],
            )
            for partition in dict.fromkeys(record[0] for record in records)
        }
        try:
            results = consumer.commit_sync(COMMIT_S)
        except KafkaException as failure:
            results = {}
            error = _name(failure)
        else:
            error = "no result"
        outcomes = {
            f"{place.topic}-{place.partition}": outcome for place, outcome in results.items()
        }
        for partition, event in begun.items():
            outcome = outcomes.get(partition, error)
            if outcome is None:
                self.recorder.end(event, Type.OK)
                continue
            name = outcome if isinstance(outcome, str) else _name(outcome)
            refused = name == "INVALID_RECORD_STATE"
            self.recorder.end(event, Type.FAIL if refused else Type.INFO, error=name)


def drawn(rng: random.Random) -> AcknowledgeType:
    """Return a random acknowledgement: mostly accept, else release or reject."""
    number = rng.random()
    if number < ACCEPTS:
        return AcknowledgeType.ACCEPT
    return AcknowledgeType.RELEASE if number < ACCEPTS + RELEASES else AcknowledgeType.REJECT


def _name(failure: KafkaException) -> str:
    error: KafkaError = failure.args[0]
    return error.name()
