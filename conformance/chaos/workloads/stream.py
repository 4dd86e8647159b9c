"""A workload of counting producers, a group that reads and commits, and an onlooker.

The checks: no acknowledged record is lost, no record occurs twice, each producer's order is kept,
reading is contiguous, and committed offsets never decrease.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from kwire.conformance.chaos.checks import Check
from kwire.conformance.chaos.checks.answers import COMMON_CHECKS
from kwire.conformance.chaos.checks.commits import COMMIT_CHECKS
from kwire.conformance.chaos.checks.logs import LOG_CHECKS
from kwire.conformance.chaos.checks.readers import READER_CHECKS
from kwire.conformance.chaos.history import JUDGE, Value
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.wire import EARLIEST, LATEST, Link
from kwire.conformance.chaos.workloads.group_reader import GroupReader, begin_group
from kwire.conformance.chaos.workloads.onlooker import Onlooker
from kwire.conformance.chaos.workloads.producers import CountingProducer, Prober, parsed
from kwire.conformance.chaos.workloads.workload import (
    Workload,
    WorkloadClient,
    WorkloadStage,
    attempt,
)

TOPIC = "stream"
GROUP = "stream-readers"
PRODUCERS_MAX = 3
READERS_MAX = 3


class Stream(Workload):
    name: ClassVar[str] = "plain"
    checks: ClassVar[Sequence[Check]] = (
        *COMMON_CHECKS,
        *LOG_CHECKS,
        *READER_CHECKS,
        *COMMIT_CHECKS,
    )

    def __init__(self, stage: WorkloadStage) -> None:
        """Create the clients, and draw their numbers from the plan's seed."""
        super().__init__(stage)
        rng = stream_of(stage.plan.seed, "stream")
        self._partitions = list(range(stage.plan.partitions))
        producers = range(rng.randint(1, PRODUCERS_MAX))
        readers = range(rng.randint(1, READERS_MAX))
        self._writers: list[WorkloadClient] = [
            *(CountingProducer(f"producer-{n}", stage, TOPIC) for n in producers),
            Prober("prober", stage, TOPIC),
            Onlooker("onlooker", stage, TOPIC, GROUP),
        ]
        self._readers = [GroupReader(f"reader-{n}", stage, TOPIC, GROUP) for n in readers]

    def prepare(self, link: Link) -> None:
        if TOPIC not in link.topics():
            link.create_topic(TOPIC, len(self._partitions), self.stage.plan.topic_configs)
        begin_group(self.stage, link, GROUP, TOPIC)

    def writers(self) -> list[WorkloadClient]:
        return self._writers

    def readers(self) -> list[WorkloadClient]:
        return list(self._readers)

    def caught_up(self, link: Link) -> bool:
        """Return whether a reader has read each partition to its end."""
        ends = link.offsets(TOPIC, self._partitions, LATEST)
        return all(
            end == 0 or any(reader.has_read(f"{TOPIC}-{p}", end) for reader in self._readers)
            for p, end in ends.items()
        )

    def conclude(self, link: Link) -> None:
        """Record the logs, the committed offsets and the topics at the end."""
        recorder = self.stage.recorder
        for partition in self._partitions:
            work = partial(read_log, link, TOPIC, partition)
            attempt(recorder, JUDGE, "read_log", work, partition=f"{TOPIC}-{partition}")
        committed = partial(self._read_committed, link)
        attempt(recorder, JUDGE, "committed", committed, group=GROUP)
        attempt(recorder, JUDGE, "topics", partial(_served_topics, link))

    def _read_committed(self, link: Link) -> Value:
        committed = link.committed(GROUP, TOPIC, self._partitions)
        return {"offsets": [(f"{TOPIC}-{p}", offset) for p, offset in committed.items()]}


def _served_topics(link: Link) -> Value:
    """Return all topics; raises Refused if one does not answer."""
    topics = link.topics()
    for topic in topics:
        link.offsets(topic, [0], LATEST)
    return {"topics": topics}


def read_log(link: Link, topic: str, partition: int) -> Value:
    """Return all records of a partition, as the result of `read_log`."""
    start = link.offsets(topic, [partition], EARLIEST)[partition]
    end = link.offsets(topic, [partition], LATEST)[partition]
    records: list[tuple[int, str | None, int | None]] = []
    for offset, value in link.read(topic, partition, start, end):
        process, number = (None, None) if value is None else parsed(value)
        records.append((offset, process, number))
    return {"start": start, "end": end, "records": records}
