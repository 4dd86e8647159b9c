"""The continuous trigger: tasks read without end, and commit epochs instead of micro-batches.

Spark 4.0 knows it for maps from topics to topics.  The real-time trigger came with Spark 4.1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.spark.connector.cluster import Cluster, wait_until
from tests.spark.connector.reading import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass
class Copy:
    """A query that writes each number of the source plus 1000 to the sink, until the block ends."""

    kafka: Kafka
    cluster: Cluster
    source: str
    sink: str
    checkpoint: Path

    def __enter__(self) -> Self:
        frame = self.kafka.stream({"subscribe": self.source})
        number = "cast(cast(value as string) + 1000 as int)"
        frame = frame.selectExpr("key", f"cast({number} as string) as value")
        writer = frame.writeStream.format("kafka").option("topic", self.sink)
        writer = writer.option("kafka.bootstrap.servers", self.cluster.bootstrap)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self.query = writer.trigger(continuous="200 milliseconds").start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.query.stop()

    def comes_to(self, count: int) -> None:
        """Wait for so many numbers, each of them once, and for an epoch that has read them all:
        what is behind the last epoch is written again after a restart."""
        wait_until(lambda: self._runs() and self._committed() == count, f"{count} numbers")
        assert self.cluster.numbers(self.sink) == [*range(1000, 1000 + count)]

    def _runs(self) -> bool:
        assert self.query.isActive, self.query.exception()
        return True

    def _committed(self) -> int:
        """The source's offset at the end of the last committed epoch."""
        epochs = [int(file.name) for file in self.checkpoint.glob("commits/[0-9]*")]
        if not epochs:
            return 0
        lines = (self.checkpoint / "offsets" / str(max(epochs))).read_text().splitlines()
        offset: int = json.loads(lines[-1])[self.source]["0"]
        return offset


def test_continuous_query_copies_records_before_and_after_a_restart(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """The topic has one partition, because each task needs its own core."""
    source, sink = cluster.create(f"{unique}-source"), cluster.create(f"{unique}-sink")
    cluster.produce(source, range(10))
    with Copy(kafka, cluster, source, sink, tmp_path) as copy:
        copy.comes_to(10)
        cluster.produce(source, range(10, 20))
        copy.comes_to(20)
    cluster.produce(source, range(20, 30))
    with Copy(kafka, cluster, source, sink, tmp_path) as copy:
        copy.comes_to(30)
