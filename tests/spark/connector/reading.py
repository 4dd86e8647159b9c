"""Spark's Kafka source and sink on one broker, as a batch and as a stream."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

TIMEOUT_S = 300

Hook = Callable[[int], None]


def values(rows: Iterable[Row]) -> list[int]:
    """The numbers in the records' values, sorted."""
    return sorted(int(row.value) for row in rows)


class Kafka:
    """Spark's source on one broker. From the earliest offset on by default."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self._defaults = {
            "kafka.bootstrap.servers": bootstrap,
            "kafka.fetch.max.wait.ms": "50",  # a consumer of a pool first waits for its last poll
            "fetchOffset.retryIntervalMs": "100",  # an error that stays is tried three times
        }

    def batch(self, options: Mapping[str, object]) -> DataFrame:
        return self.spark.read.format("kafka").options(**self._with(options)).load()

    def stream(self, options: Mapping[str, object]) -> DataFrame:
        given = {"startingOffsets": "earliest"} | self._with(options)
        return self.spark.readStream.format("kafka").options(**given).load()

    def write(self, frame: DataFrame, options: Mapping[str, object]) -> None:
        frame.write.format("kafka").options(**self._with(options)).save()

    def _with(self, options: Mapping[str, object]) -> dict[str, str]:
        return self._defaults | {name: str(value) for name, value in options.items()}


class Query:
    """A streaming query whose micro-batches are kept; stopped when the block ends.

    It goes on until then, unless it is to run `once`: until all is read that there is at its start.
    `hook` is called with the batch's number when its offsets are decided and nothing is read yet.
    """

    def __init__(
        self, frame: DataFrame, checkpoint: Path, hook: Hook | None = None, *, once: bool = False
    ) -> None:
        self.batches: list[list[Row]] = []
        self.partitions: list[int] = []
        self._arrived: queue.Queue[list[Row]] = queue.Queue()
        self._hook = hook
        writer = frame.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(checkpoint))
        if once:
            writer = writer.trigger(availableNow=True)
        self.query = writer.start()

    def _take(self, frame: DataFrame, number: int) -> None:
        if self._hook is not None:
            self._hook(number)
        self.partitions.append(frame.rdd.getNumPartitions())
        rows = frame.collect()
        self.batches.append(rows)
        self._arrived.put(rows)

    def next(self) -> list[int]:
        """The values of the next completed micro-batch."""
        while True:
            try:
                return values(self._arrived.get(timeout=0.5))
            except queue.Empty:
                pass
            assert self.query.isActive, self.query.exception()

    def until(self, count: int) -> list[int]:
        """The values of the next micro-batches, until there are `count` values."""
        found: list[int] = []
        while len(found) < count:
            found += self.next()
        return sorted(found)

    def end(self) -> Self:
        """Wait until it ends by itself. Raises its error."""
        assert self.query.awaitTermination(TIMEOUT_S), "the query goes on"
        return self

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.batches for row in rows]

    @property
    def source(self) -> dict[str, Any]:
        """What Spark last reported of its source; {} before its first report."""
        progress = self.query.lastProgress
        return json.loads(progress.json)["sources"][0] if progress else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.query.stop()


def run(frame: DataFrame, checkpoint: Path, hook: Hook | None = None) -> Query:
    """Read all present records."""
    with Query(frame, checkpoint, hook, once=True) as query:
        return query.end()
