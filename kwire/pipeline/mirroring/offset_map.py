"""Where each record of the source is in the target: the map of offsets, read and looked up."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.mirroring.cluster import PATIENCE_S, ClusterAdmin, PartitionId
from kwire.pipeline.positions import MapRecord, Run

if TYPE_CHECKING:
    from confluent_kafka import Message

READ_RECORDS = 1000
POLL_S = 0.1
SETTINGS = {"cleanup.policy": "compact", "compression.type": "producer"}


@dataclass
class PartitionMap:
    """The runs of a partition, in the order of the source and so of the target.

    origin, target   What they are the runs of, see kwire/pipeline/positions.py.
    """

    origin: str = ""
    target: str = ""
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Take the run that follows."""
        self.sources.append(run.source)
        self.targets.append(run.target)
        self.records.append(run.records)

    @property
    def position(self) -> int:
        """The source's offset behind the last record; 0 where there is none."""
        return self.sources[-1] + self.records[-1] if self.sources else 0

    def translate(self, offset: int, mirrored: int) -> int | None:
        """Where a group that read up to `offset` goes on in the target.

        That is the place of the first record at `offset` or after it.  `mirrored` is the source's
        offset up to which all records are known to be in the target: behind the last record there
        may be markers, and what compaction left.  None: such a record is not mirrored yet.
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


class OffsetMap:
    """The map topic of a mirror, as far as it was read."""

    def __init__(self, target: ClusterAdmin, topic: str) -> None:
        self.topic = topic
        self.partitions: dict[PartitionId, PartitionMap] = defaultdict(PartitionMap)
        self._target = target
        self._next = 0
        self._keys: dict[PartitionId, list[tuple[bytes, int]]] = defaultdict(list)

    def create(self, replication: int | None) -> None:
        """Make the topic, unless it is there."""
        self._target.create_topic(self.topic, 1, SETTINGS, replication)

    def read(self) -> None:
        """Read what was committed since the last time."""
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
        """Read until the map holds all that was written, or the time is over."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.read()
            if all(self.partitions[place].position >= end for place, end in written.items()):
                return
            if time.monotonic() > deadline:
                return
            time.sleep(POLL_S)

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            if (error := message.error()) is not None:
                raise PipelineError(f"{self.topic} cannot be read: {error.str()}")
            key, value = message.key(), message.value()
            if key is None or value is None:
                continue  # pruned: its runs are of no use to anyone
            record = MapRecord.decode(key, value)
            partition = record.topic, record.partition
            runs = self.partitions[partition]
            if (runs.origin, runs.target) != (record.origin, record.target):
                runs = self.partitions[partition] = PartitionMap(record.origin, record.target)
            for run in record.runs:
                runs.add(run)
            self._keys[partition].append((key, runs.position))

    def prune(self, beginnings: dict[PartitionId, int]) -> int:
        """Remove what is before where the source begins; returns how many records.

        A partition's last record stays: it tells how far the mirror has come.
        """
        from confluent_kafka import Producer

        gone = []
        for partition, begins in beginnings.items():
            keys = self._keys[partition]
            count = sum(end <= begins for _, end in keys[:-1])
            gone += [key for key, _ in keys[:count]]
            del keys[:count]
        if gone:
            producer = Producer(self._target.settings | {"error_cb": lambda error: None})
            for key in gone:
                producer.produce(self.topic, None, key, 0)
            producer.flush(PATIENCE_S)
        return len(gone)
