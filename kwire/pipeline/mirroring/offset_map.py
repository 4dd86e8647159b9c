"""Reads the map of offsets: which source offset became which target offset."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from kwire.pipeline.cluster import PATIENCE_S, ClusterAdmin, PartitionId
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.positions import MapRecord, Run

if TYPE_CHECKING:
    from confluent_kafka import Message

READ_RECORDS = 1000
POLL_S = 0.1
PRUNED_AT_ONCE = 10_000
SETTINGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(
        64 << 20
    ),  # compaction removes pruned records once their segment is rolled
}


@dataclass
class PartitionMap:
    """The runs of one partition in the order of their offsets.

    origin, target   Identity of the source and topic id of the target (kwire.pipeline.positions).
    """

    origin: str = ""
    target: str = ""
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Append the next run."""
        self.sources.append(run.source)
        self.targets.append(run.target)
        self.records.append(run.records)

    def forget(self, end: int) -> None:
        """Drop runs that end at or before `end`, but not the last one, which is the position."""
        count = bisect_left(self.sources, end)
        if count and self.sources[count - 1] + self.records[count - 1] > end:
            count -= 1
        count = min(count, len(self.sources) - 1)
        if count > 0:
            del self.sources[:count], self.targets[:count], self.records[:count]

    @property
    def position(self) -> int:
        """The source offset after the last record; 0 without records."""
        return self.sources[-1] + self.records[-1] if self.sources else 0

    def translate(self, offset: int, mirrored: int) -> int | None:
        """The target offset at which a group with the source offset `offset` continues.

        It is the target offset of the first record at or after `offset`, or None if that record is
        not mirrored yet.  `mirrored` is the source offset up to which all records are in the
        target; it may be after the last record, because of markers and compaction.
        """
        if offset > max(mirrored, self.position):
            return None
        index = bisect_right(self.sources, offset) - 1
        if index < 0:
            return self.targets[0] if self.targets else 0
        into = offset - self.sources[index]
        if into < self.records[index]:
            return self.targets[index] + into
        if index + 1 < len(self.sources):
            return self.targets[index + 1]
        return self.targets[index] + self.records[index]


class MirrorOffsetMap:
    """The content of a mirror's map topic, as far as it has been read."""

    def __init__(self, target: ClusterAdmin, topic: str) -> None:
        """`topic` is the map topic in the cluster `target`; `read` reads it."""
        self.topic = topic
        self.partitions: dict[PartitionId, PartitionMap] = defaultdict(PartitionMap)
        self._target = target
        self._next = 0
        self._ends: dict[PartitionId, dict[bytes, int]] = defaultdict(dict)
        """The source offset after each record of the map topic, by key, in order of the records.
        It also has records of topics that were created again since."""

    def create(self, replication: int | None) -> None:
        """Create the topic unless it exists."""
        self._target.create_topic(self.topic, 1, SETTINGS, replication)

    def read(self) -> None:
        """Read the records that were committed since the last call."""
        from confluent_kafka import Consumer, TopicPartition

        end = self._target.ends([(self.topic, 0)])[self.topic, 0]
        if end <= self._next:
            return
        consumer = Consumer(
            self._target.settings
            | {
                "group.id": self.topic,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "error_cb": lambda error: None,
            }
        )
        try:
            consumer.assign([TopicPartition(self.topic, 0, self._next)])
            while self._next < end:
                messages = consumer.consume(READ_RECORDS, PATIENCE_S / READ_RECORDS)
                self._take(messages)
                (place,) = consumer.position([TopicPartition(self.topic, 0)])
                self._next = max(self._next, place.offset)
        finally:
            consumer.close()

    def wait_for(self, written: Mapping[PartitionId, int], timeout_s: float) -> None:
        """Read until the map has all written records, or until the timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.read()
            if all(self.partitions[place].position >= end for place, end in written.items()):
                return
            if time.monotonic() > deadline:
                return
            time.sleep(POLL_S)

    def _take(self, messages: list[Message]) -> None:
        """Applies records of the map topic.  A record with another origin or target topic id
        replaces the map of its partition, since one of the two topics was created again.  A
        tombstone removes its runs."""
        for message in messages:
            if (error := message.error()) is not None:
                raise PipelineError(f"{self.topic} cannot be read: {error.str()}")
            key, value = message.key(), message.value()
            if key is None:
                continue
            if value is None:
                self._forget(MapRecord.place(key), key)
                continue
            record = MapRecord.decode(key, value)
            partition = record.topic, record.partition
            runs = self.partitions[partition]
            if (runs.origin, runs.target) != (record.origin, record.target):
                runs = self.partitions[partition] = PartitionMap(record.origin, record.target)
            for run in record.runs:
                runs.add(run)
            ends = self._ends[partition]
            ends.pop(key, None)
            ends[key] = runs.position

    def _forget(self, partition: PartitionId, key: bytes) -> None:
        if (end := self._ends[partition].pop(key, None)) is not None:
            self.partitions[partition].forget(end)

    def prune(self, needed: Mapping[PartitionId, int]) -> int:
        """Remove records that end before the first needed offset; returns their number.

        Each record has its own key, so compaction alone would keep all of them.  The last record of
        a partition stays, because it has the position of the mirror.  The removed keys are not
        written again, because the source is past their offsets.
        """
        from confluent_kafka import Producer

        unneeded = [
            (partition, key)
            for partition, first in needed.items()
            for ends in [self._ends[partition]]
            for key, end in islice(ends.items(), max(0, len(ends) - 1))
            if end <= first
        ]
        if not unneeded:
            return 0
        producer = Producer(self._target.settings | {"error_cb": lambda error: None})
        for start in range(0, len(unneeded), PRUNED_AT_ONCE):
            part = unneeded[start : start + PRUNED_AT_ONCE]
            for _, key in part:
                producer.produce(self.topic, None, key, 0)
            if producer.flush(PATIENCE_S):
                return start  # The target does not respond; the next call continues.
            for partition, key in part:
                self._forget(partition, key)
        return len(unneeded)
