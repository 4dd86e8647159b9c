"""Writes each record when it is due: a replay at a multiple of real time.

This module is sent to Spark's executors by value: it imports only modules of kwire that are sent
as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from kwire.pipeline.exactly_once import (
    ExactlyOnceWriter,
    PartitionResult,
    PartitionWriter,
    WritePlan,
)

if TYPE_CHECKING:
    import pyarrow

DUE = "due"
"""The column that rows are sorted by: the latest timestamp (ms) of its partition up to a row."""
TRANSACTION_S = 0.5
"""The longest time, in seconds, for which due records wait for others of their partition."""


@dataclass(frozen=True)
class ReplayPace:
    """Maps timestamps of records to the times at which they are due.

    first_ms   The timestamp that is due at `started_s`.
    started_s  Start of the replay in seconds since 1970, the same for all tasks.
    speed      How many times faster than real time the replay is.
    """

    first_ms: int
    started_s: float
    speed: float

    def reached_ms(self, now_s: float) -> int:
        """The last timestamp that is due."""
        return self.first_ms + int((now_s - self.started_s) * 1000 * self.speed)

    def due_s(self, timestamp_ms: int) -> float:
        """When a timestamp is due, in seconds since 1970."""
        return self.started_s + (timestamp_ms - self.first_ms) / 1000 / self.speed


@dataclass(frozen=True)
class PacedWriter(ExactlyOnceWriter):
    """Writes rows exactly once, and no row before it is due."""

    pace: ReplayPace = field(kw_only=True)

    def write(
        self, batches: Iterable[pyarrow.RecordBatch], plan: WritePlan
    ) -> Iterator[PartitionResult]:
        """Write rows that are sorted by DUE, and then by partition and offset.

        The partitions of a task are written side by side, each with its producer.
        """
        side_by_side = SideBySide(self, plan)
        for batch in batches:
            side_by_side.add(batch)
        yield from side_by_side.finish()


def ship_by_value() -> None:
    """Pickle this module by value: executors need not have kwire installed."""
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])


class SideBySide:
    """The writers of one task's partitions."""

    def __init__(self, writer: PacedWriter, plan: WritePlan) -> None:
        """Writes all partitions of one Spark task in turn, in the order in which records are
        due."""
        self.writer = writer
        self.plan = plan
        self._partitions: dict[tuple[str, int], PartitionWriter] = {}
        self._flushed_s = time.monotonic()

    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Write rows when they are due."""
        due = batch.column(DUE).to_numpy(zero_copy_only=False)
        rows = batch.drop_columns([DUE])
        done = 0
        while done < len(due):
            now_ms = self.writer.pace.reached_ms(time.time())
            reached = int(due.searchsorted(now_ms, side="right"))
            if reached > done:
                self._hold(rows.slice(done, reached - done))
                done = reached
            else:
                self._wait_for(int(due[done]))
            if time.monotonic() - self._flushed_s >= TRANSACTION_S:
                self._flush()

    def finish(self) -> Iterator[PartitionResult]:
        """Write the remaining rows.  Yields the result of each partition."""
        for partition in self._partitions.values():
            yield partition.finish()

    def _wait_for(self, timestamp_ms: int) -> None:
        """Sleep until a record is due, or until the open transactions have to be committed."""
        wait_s = self.writer.pace.due_s(timestamp_ms) - time.time()
        left_s = self._flushed_s + TRANSACTION_S - time.monotonic()
        time.sleep(max(0.0, min(wait_s, left_s)))

    def _flush(self) -> None:
        for partition in self._partitions.values():
            partition.flush()
        self._flushed_s = time.monotonic()

    def _hold(self, rows: pyarrow.RecordBatch) -> None:
        """Pass each partition's rows in their order to its writer."""
        import pyarrow.compute as pc

        columns = rows.column("topic").to_pylist(), rows.column("partition").to_pylist()
        for topic, partition in sorted(set(zip(*columns, strict=True))):
            mask = pc.and_(
                pc.equal(rows.column("topic"), topic), pc.equal(rows.column("partition"), partition)
            )
            self._of(topic, partition).add(rows.filter(mask))

    def _of(self, topic: str, partition: int) -> PartitionWriter:
        """Return the writer of the target partition of a source partition; it is made on first
        use."""
        target = self.plan.targets.get(topic, topic)
        if (target, partition) not in self._partitions:
            self._partitions[target, partition] = PartitionWriter(
                self.writer, target, partition, self.plan.position(topic), 0
            )
        return self._partitions[target, partition]
