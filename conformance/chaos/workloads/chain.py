"""A workload of two groups in a row that consume, process and produce in transactions.

The checks: the output is the input, once, in order per key; committed offsets and output agree; a
reader of committed records gets exactly those; at the end all transactions are over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import confluent_kafka

from kwire.conformance.chaos.checks import Check
from kwire.conformance.chaos.checks.answers import COMMON_CHECKS
from kwire.conformance.chaos.checks.chain import CHAIN_CHECKS
from kwire.conformance.chaos.checks.commits import COMMIT_CHECKS
from kwire.conformance.chaos.checks.transactions import TRANSACTION_CHECKS
from kwire.conformance.chaos.history import JUDGE, Value
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.wire import Link, LogRecord
from kwire.conformance.chaos.workloads.auditor import Auditor
from kwire.conformance.chaos.workloads.group_reader import begin_group
from kwire.conformance.chaos.workloads.onlooker import Onlooker
from kwire.conformance.chaos.workloads.processor import Processor, key_of, name_of
from kwire.conformance.chaos.workloads.producers import CountingProducer, parsed
from kwire.conformance.chaos.workloads.transactions import (
    TransactionSettling,
    read_logs,
    records_behind,
)
from kwire.conformance.chaos.workloads.txn_reader import TxnReader
from kwire.conformance.chaos.workloads.workload import (
    Workload,
    WorkloadClient,
    WorkloadStage,
    attempt,
)

TOPICS = ("orders", "checked", "booked")
LINKS = (("orders", "checked", "checkers"), ("checked", "booked", "bookers"))
MEMBERS_MAX = 3
OFFSETS_TOPIC = "__consumer_offsets"


class Chain(Workload):
    name: ClassVar[str] = "chain"
    checks: ClassVar[Sequence[Check]] = (
        *COMMON_CHECKS,
        *TRANSACTION_CHECKS,
        *CHAIN_CHECKS,
        *COMMIT_CHECKS,
    )

    def __init__(self, stage: WorkloadStage) -> None:
        """Create the clients of each stage, and draw their numbers from the plan's seed.

        The offsets topic is watched too, since transactions write the groups' offsets to it.
        """
        super().__init__(stage)
        rng = stream_of(stage.plan.seed, "chain")
        count = stage.plan.partitions
        self._topics = {topic: range(count) for topic in TOPICS}
        offsets = range(int(stage.plan.broker_settings["offsets.topic.num.partitions"]))
        self._settling = TransactionSettling(stage, {**self._topics, OFFSETS_TOPIC: offsets})
        self._writers: list[WorkloadClient] = [
            *(
                CountingProducer(f"producer-{n}", stage, TOPICS[0])
                for n in range(rng.randint(1, 2))
            ),
            Onlooker("onlooker", stage, TOPICS[0], LINKS[0][2]),
        ]
        self._processors = [
            Processor(f"{link[2]}-{n}", stage, link, f"{link[2]}-id-{n}")
            for link in LINKS
            for n in range(rng.randint(1, MEMBERS_MAX))
        ]
        self._reader = TxnReader("reader", stage, TOPICS[-1], count, _message_name)
        self._auditor = Auditor("auditor", stage, TOPICS[-1], count)

    def prepare(self, link: Link) -> None:
        """Create the topics and groups that are missing, and record the stages for the checks."""
        self.stage.recorder.note(JUDGE, "chain", stages=list(LINKS))
        for topic, partitions in self._topics.items():
            if topic not in link.topics():
                link.create_topic(topic, len(partitions), self.stage.plan.topic_configs)
        for source, _, group in LINKS:
            begin_group(self.stage, link, group, source)

    def writers(self) -> list[WorkloadClient]:
        return self._writers

    def readers(self) -> list[WorkloadClient]:
        return [*self._processors, self._reader, self._auditor]

    def caught_up(self, link: Link) -> bool:
        """Return whether all transactions have ended and everything was processed and read."""
        if not self._settling.settled(link):
            return False
        behind = any(self._behind(link, source, group) for source, _, group in LINKS)
        return not behind and self._reader.has_read_all(link)

    def progress(self, link: Link) -> object:
        return [link.committed(group, source, self._topics[source]) for source, _, group in LINKS]

    def _behind(self, link: Link, source: str, group: str) -> bool:
        """Return whether the group has not committed the end of its source topic."""
        partitions = self._topics[source]
        committed = link.committed(group, source, partitions)
        return any(
            records_behind(link, source, p, committed.get(p, 0), _record_name) for p in partitions
        )

    def conclude(self, link: Link) -> None:
        """Record the logs and the groups' committed offsets at the end."""
        recorder = self.stage.recorder
        read_logs(link, recorder, self._topics, _record_name)
        for source, _, group in LINKS:
            work = partial(self._read_committed, link, source, group)
            attempt(recorder, JUDGE, "committed", work, group=group)

    def _read_committed(self, link: Link, source: str, group: str) -> Value:
        committed = link.committed(group, source, self._topics[source])
        return {"offsets": [(f"{source}-{p}", offset) for p, offset in committed.items()]}


def _message_name(message: confluent_kafka.Message) -> str:
    return name_of(key_of(message), message.value() or b"")


def _record_name(record: LogRecord, partition: str) -> str:
    index = partition.rpartition("-")[2]
    key = record.key or f"{parsed(record.value)[0]}/{index}".encode()
    return name_of(key, record.value)
