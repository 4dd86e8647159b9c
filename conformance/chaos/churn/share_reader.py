"""A member of a share group: librdkafka's, which says of each record what is to become of it."""

from __future__ import annotations

import random
import threading

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer

from kwire.conformance.chaos.history import Type
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.workloads.producers import BACKOFF
from kwire.conformance.chaos.workloads.workload import Client, Stage

POLL_S, COMMIT_S = 0.2, 20.0
ACCEPTS, RELEASES = 0.9, 0.07
"""Of all records; the rest are rejected."""
NAMES = {
    AcknowledgeType.ACCEPT: "accept",
    AcknowledgeType.RELEASE: "release",
    AcknowledgeType.REJECT: "reject",
}
Said = tuple[str, int, int, str]
"""Partition, offset, the how manieth delivery it was, what is said of it."""


class ShareReader(Client):
    """`deliver` {group} -> {records: [[partition, offset, count], ...]}: what one poll brought.

    `acknowledge` {group, partition, records: [[offset, count, what], ...]}: ok once the broker has
    said that it is so, `fail` where it has refused all of it.
    """

    def __init__(self, name: str, stage: Stage, topic: str, group: str) -> None:
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
        consumer = ShareConsumer(self._settings)
        consumer.subscribe([self._topic])
        while not stop.is_set():
            said = self._poll(consumer)
            if said:
                self._commit(consumer, said)
        consumer.close()

    def _poll(self, consumer: ShareConsumer) -> list[Said]:
        began_ns = self.recorder.now_ns()
        try:
            found = [each for each in consumer.poll(POLL_S) if each.error() is None]
        except KafkaException as failure:
            self.recorder.note(self.name, "unread", error=_name(failure))
            return []
        if not found:
            return []
        said = [self._say(consumer, each) for each in found]
        begun = self.recorder.invoked_at(began_ns, self.name, "deliver", {"group": self._group})
        self.recorder.end(begun, Type.OK, records=[each[:3] for each in said])
        return said

    def _say(self, consumer: ShareConsumer, message: Message) -> Said:
        what = drawn(self._rng)
        consumer.acknowledge(message, what)
        offset = message.offset()
        assert offset is not None
        partition = f"{message.topic()}-{message.partition()}"
        return partition, offset, message.delivery_count() or 0, NAMES[what]

    def _commit(self, consumer: ShareConsumer, said: list[Said]) -> None:
        """What was sent is noted before."""
        begun = {
            partition: self.recorder.invoke(
                self.name,
                "acknowledge",
                group=self._group,
                partition=partition,
                records=[each[1:] for each in said if each[0] == partition],
            )
            for partition in dict.fromkeys(each[0] for each in said)
        }
        try:
            told = consumer.commit_sync(COMMIT_S)
        except KafkaException as failure:
            told = {}
            error = _name(failure)
        else:
            error = "not told"
        outcomes = {f"{each.topic}-{each.partition}": outcome for each, outcome in told.items()}
        for partition, event in begun.items():
            outcome = outcomes.get(partition, error)
            if outcome is None:
                self.recorder.end(event, Type.OK)
                continue
            name = outcome if isinstance(outcome, str) else _name(outcome)
            refused = name == "INVALID_RECORD_STATE"
            self.recorder.end(event, Type.FAIL if refused else Type.INFO, error=name)


def drawn(rng: random.Random) -> AcknowledgeType:
    number = rng.random()
    if number < ACCEPTS:
        return AcknowledgeType.ACCEPT
    return AcknowledgeType.RELEASE if number < ACCEPTS + RELEASES else AcknowledgeType.REJECT


def _name(failure: KafkaException) -> str:
    error: KafkaError = failure.args[0]
    return error.name()
