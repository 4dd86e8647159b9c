"""A query that copies a topic as its records come, without waiting for micro-batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.spark.connector.cluster import Cluster, wait_until
from tests.spark.connector.reading import Kafka


@dataclass
class Copy:
    """A query that writes each number of the source plus 1000 to the sink, until the block ends.

    Each topic has one partition, because each task needs its own core.
    """

    kafka: Kafka
    cluster: Cluster
    source: str
    sink: str
    checkpoint: Path
    trigger: Mapping[str, str]
    output_mode: str = "append"

    def __enter__(self) -> Self:
        frame = self.kafka.stream({"subscribe": self.source})
        number = "cast(cast(value as string) + 1000 as int)"
        frame = frame.selectExpr("key", f"cast({number} as string) as value")
        writer = frame.writeStream.format("kafka").option("topic", self.sink)
        writer = writer.option("kafka.bootstrap.servers", self.cluster.bootstrap)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self.query = writer.outputMode(self.output_mode).trigger(**self.trigger).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.query.stop()

    def comes_to(self, count: int) -> None:
        """Wait until the query has noted that it has read so many numbers; the sink has them all.

        Some may be there twice, because Spark's Kafka sink promises each record at least once.
        A stopped query does not wait for its tasks: one that still runs goes on copying what is
        produced meanwhile, and notes nothing, so that the next run copies the same again.
        """
        wait_until(lambda: self._runs() and self.noted() == count, f"{count} numbers")
        numbers = self.cluster.numbers(self.sink)
        assert sorted(set(numbers)) == [*range(1000, 1000 + count)], numbers

    def passes_on(self, count: int) -> None:
        """Wait until so many numbers are in the sink, noted or not."""
        wait_until(
            lambda: self._runs() and len(self.cluster.numbers(self.sink)) >= count,
            f"{count} numbers",
        )

    def _runs(self) -> bool:
        assert self.query.isActive, self.query.exception()
        return True

    def noted(self) -> int:
        """The source's offset at the end of the last committed epoch or batch."""
        ends = [int(file.name) for file in self.checkpoint.glob("commits/[0-9]*")]
        if not ends:
            return 0
        lines = (self.checkpoint / "offsets" / str(max(ends))).read_text().splitlines()
        offset: int = json.loads(lines[-1])[self.source]["0"]
        return offset
