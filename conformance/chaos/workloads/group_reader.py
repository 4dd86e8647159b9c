"""A member of a group: a consumer of librdkafka that commits what it has processed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping

import confluent_kafka
from confluent_kafka import KafkaError, TopicPartition

from kwire.conformance.chaos.history import JUDGE, Type, Value
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.wire import Link
from kwire.conformance.chaos.workloads.producers import BACKOFF, parsed
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage, attempt

RECORDS_MAX = 200
"""Limit on the records of one poll operation in the history."""
POLL_S = 0.05
REFUSED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
"""Errors of the coordinator that say that the commit is not in its log."""

OFFSET_RESET = "error"
"""auto.offset.reset of groups that `begin_group` has begun.

Without a committed offset, librdkafka 2.16 sends ListOffsets. If the response is late, it asks
again after a while, even if the partition has been revoked meanwhile, and fetches a partition that
is not assigned. At the next assignment it returns these records and then starts from the committed
offset, so that one member gets records twice.
"""

CLASSIC, COOPERATIVE, CONSUMER = "classic", "cooperative", "consumer"


def _classic(rng: random.Random, *strategies: str) -> dict[str, object]:
    """Return the settings of a member of the classic protocol, partly at random."""
    return {
        "session.timeout.ms": rng.choice([1000, 6000]),
        "heartbeat.interval.ms": 200,
        "partition.assignment.strategy": rng.choice(strategies),
    }


PROTOCOLS: Mapping[str, Callable[[random.Random], dict[str, object]]] = {
    CLASSIC: lambda rng: _classic(rng, "range", "roundrobin"),
    COOPERATIVE: lambda rng: _classic(rng, "cooperative-sticky"),
    CONSUMER: lambda rng: {
        "group.protocol": "consumer",
        "group.remote.assignor": rng.choice(["uniform", "range"]),
    },
}
"""The settings of members by the protocol of their group."""

Record = tuple[str, int, str, int]


def begin_group(stage: WorkloadStage, link: Link, group: str, topic: str) -> None:
    """Commit offset 0 of all partitions as the start of a group. Raises Refused."""
    partitions = range(stage.plan.partitions)

    def work() -> Value:
        link.find_coordinator(group)
        link.commit(group, topic, dict.fromkeys(partitions, 0))
        return {}

    offsets = [(f"{topic}-{partition}", 0) for partition in partitions]
    attempt(stage.recorder, JUDGE, "commit", work, group=group, offsets=offsets)


class GroupReader(WorkloadClient):
    """Reads its partitions; commits after every few polls, and before it gives up partitions."""

    def __init__(
        self,
        name: str,
        stage: WorkloadStage,
        topic: str,
        group: str,
        protocol: str = CLASSIC,
        refused: frozenset[int] = REFUSED,
    ) -> None:
        """`protocol` is one of PROTOCOLS; `refused` are errors that say that a commit had no
        effect."""
        super().__init__(name, stage)
        self._refused = refused
        self._topic = topic
        self._group = group
        rng = stream_of(stage.plan.seed, name)
        self._polls_a_commit = rng.choice([1, 2, 10])
        self._commits_on_revoke = rng.random() < 0.5
        self._next: dict[str, int] = {}
        self._committed: dict[str, int] = {}
        self._records: list[Record] = []
        self._ends: dict[str, int] = {}
        self._settings = {
            "bootstrap.servers": stage.bootstrap,
            "client.id": name,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": OFFSET_RESET,
            **PROTOCOLS[protocol](rng),
            "fetch.wait.max.ms": rng.choice([10, 100, 500]),
            "fetch.error.backoff.ms": 50,
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
            **BACKOFF,
        }

    def has_read(self, partition: str, end: int) -> bool:
        """Return whether this member has read up to `end`; may be called from another thread."""
        return self._ends.get(partition, 0) >= end

    def run(self, stop: threading.Event) -> None:
        """Read and commit until `stop` is set, then commit the rest and leave the group."""
        consumer = confluent_kafka.Consumer(self._settings)
        consumer.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        polls = 0
        while not stop.is_set():
            self._poll(consumer)
            polls += 1
            if polls % self._polls_a_commit == 0:
                self._commit(consumer)
        self._commit(consumer)
        consumer.close()

    def _poll(self, consumer: confluent_kafka.Consumer) -> None:
        """Read the records that are there, at most RECORDS_MAX, and record them."""
        began_ns = self.recorder.now_ns()
        message = consumer.poll(POLL_S)
        while message is not None:
            self._take(message)
            if len(self._records) >= RECORDS_MAX:
                break
            message = consumer.poll(0)
        self._note_records(began_ns)

    def _take(self, message: confluent_kafka.Message) -> None:
        """Take a record and its next position; an offset that cannot be reset is fatal."""
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                self.recorder.note(self.name, "client_fatal", error=error.str())
            return
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        partition = f"{message.topic()}-{message.partition()}"
        self._records.append((partition, offset, *parsed(value)))
        self._next[partition] = offset + 1

    def _note_records(self, began_ns: int) -> None:
        """Record the polled records before the next operation."""
        if not self._records:
            return
        begun = self.recorder.invoke_at(began_ns, self.name, "poll", {"group": self._group})
        self.recorder.end(begun, Type.OK, records=self._records)
        for partition, offset, *_ in self._records:
            self._ends[partition] = max(self._ends.get(partition, 0), offset + 1)
        self._records = []

    def _commit(self, consumer: confluent_kafka.Consumer) -> None:
        """Commit the positions that have changed, and record the outcome.

        An error means that the commit failed if it is among the refusals, else that it may have
        succeeded.
        """
        wanted = {p: n for p, n in self._next.items() if self._committed.get(p) != n}
        if not wanted:
            return
        begun = self.recorder.invoke(
            self.name, "commit", group=self._group, offsets=sorted(wanted.items())
        )
        offsets = [
            TopicPartition(self._topic, int(partition.rpartition("-")[2]), offset)
            for partition, offset in wanted.items()
        ]
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as failure:
            error: KafkaError = failure.args[0]
            result = Type.FAIL if error.code() in self._refused else Type.INFO
            self.recorder.end(begun, result, error=error.name())
            return
        errors = [position.error for position in done or [] if position.error is not None]
        if errors:
            self.recorder.end(begun, Type.INFO, error=errors[0].name())
            return
        self.recorder.end(begun, Type.OK)
        self._committed.update(wanted)

    # Rebalances; librdkafka calls these during `poll` and `close`

    def _on_assign(
        self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        """Record what was read before, then the partitions that were assigned."""
        self._note_records(self.recorder.now_ns())
        self._note_partitions("assign", partitions)

    def _on_revoke(
        self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        """Record what was read, commit it if this member does so, and forget the partitions."""
        self._note_records(self.recorder.now_ns())
        if self._commits_on_revoke:
            self._commit(consumer)
        self._forget(partitions)

    def _on_lost(
        self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]
    ) -> None:
        """Record what was read before, and forget the partitions without a commit."""
        self._note_records(self.recorder.now_ns())
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        """Record the end of the assignment; other members may commit these partitions now."""
        self._note_partitions("revoke", partitions)
        for position in partitions:
            self._next.pop(f"{position.topic}-{position.partition}", None)
            self._committed.pop(f"{position.topic}-{position.partition}", None)

    def _note_partitions(self, f: str, partitions: list[TopicPartition]) -> None:
        names = [f"{position.topic}-{position.partition}" for position in partitions]
        self.recorder.note(self.name, f, group=self._group, partitions=names)
