"""The Spark job: delay statistics by carrier and month, from a topic to a topic and Parquet.

Spark's Kafka source and sink read and write.  The stream is stopped once before its end and resumed
from its checkpoint, like a job that is deployed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from kwire import pipeline
from kwire.pipeline.demo.flights import LATE_MIN, Delays, Statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHT_SCHEMA = "carrier STRING, month INT, dep_time INT, arr_delay INT"
STEPS = 6  # micro-batches that the topic is read in
STOP_AFTER = 2  # micro-batches before the stream is stopped
POLL_S = 0.1
STALL_S = 300.0


class SparkFailed(RuntimeError):
    """The stream made no progress, or did not resume where it had stopped."""


@dataclass(frozen=True)
class DelayJob:
    """The source, the results and the directory of the stream."""

    bootstrap: str
    source: str
    result: str
    directory: Path
    records: int

    @property
    def parquet(self) -> Path:
        return self.directory / "delays.parquet"

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"


@contextmanager
def session(log: Path) -> Iterator[SparkSession]:
    """A local Spark session.  The output of Spark and of its jar resolution goes to `log`."""
    few_groups = {"spark.sql.shuffle.partitions": "4"}  # more partitions would only make more files
    options = pipeline.SparkOptions(master="local[*]", settings=few_groups, log=log)
    with pipeline.session("flights", options) as spark:
        yield spark


def delays_of(messages: DataFrame) -> DataFrame:
    """Statistics by carrier and month, a column for each field of Delays."""
    from pyspark.sql import functions as f

    value = f.from_json(f.col("value").cast("string"), FLIGHT_SCHEMA).alias("flight")
    flights = messages.select(value).select("flight.*")
    one = f.lit(1).cast("long")
    zero = f.lit(0).cast("long")
    return flights.groupBy("carrier", "month").agg(
        f.count("*").alias("flights"),
        f.sum(f.when(f.col("dep_time").isNull(), one).otherwise(zero)).alias("cancelled"),
        f.count("arr_delay").alias("arrived"),
        f.coalesce(f.sum("arr_delay"), zero).alias("delay_sum"),
        f.min("arr_delay").alias("delay_min"),
        f.max("arr_delay").alias("delay_max"),
        f.sum(f.when(f.col("arr_delay") > LATE_MIN, one).otherwise(zero)).alias("late"),
    )


def run(spark: SparkSession, job: DelayJob, progress: Callable[[int], None]) -> tuple[int, int]:
    """Run the stream, stop it before its end, and run it again to the end of the topic.

    Returns the numbers of records read before and after the stop.
    """
    first = _start(spark, job)
    before = _follow(first, progress, 0, until_steps=STOP_AFTER)
    first.stop()
    second = _start(spark, job)
    after = _follow(second, progress, before, until_steps=None)
    resumed_at = second.recentProgress[0].batchId if second.recentProgress else 0
    if not before or not after or not resumed_at:
        raise SparkFailed(
            f"the stream read {before} records, was stopped, and read {after} from micro-batch"
            f" {resumed_at} on: it did not resume from its checkpoint"
        )
    return before, after


def _start(spark: SparkSession, job: DelayJob) -> StreamingQuery:
    """Starts the streaming query, which ends when it has read all records, in `STEPS`
    micro-batches."""
    from pyspark.sql import functions as f

    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", -(-job.records // STEPS))
        .load()
    )

    def write(delays: DataFrame, _: int) -> None:
        """Write all groups so far to the topic, and replace the Parquet files."""
        delays.persist()
        key = f.format_string("%s-%02d", "carrier", "month").alias("key")
        value = f.to_json(f.struct("*")).alias("value")
        sink = delays.select(key, value).write.format("kafka")
        sink.option("kafka.bootstrap.servers", job.bootstrap).option("topic", job.result).save()
        delays.coalesce(1).write.mode("overwrite").parquet(str(job.parquet))
        delays.unpersist()

    return (
        delays_of(messages)
        .writeStream.outputMode("complete")
        .foreachBatch(write)
        .option("checkpointLocation", str(job.checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def _follow(
    query: StreamingQuery, progress: Callable[[int], None], before: int, until_steps: int | None
) -> int:
    """Report progress until the query ends or has run `until_steps` micro-batches.

    Returns the number of records that it read.
    """
    deadline = time.monotonic() + STALL_S
    while True:
        active = query.isActive
        steps = query.recentProgress
        rows = sum(step.numInputRows for step in steps)
        progress(before + rows)
        if until_steps is not None and len(steps) >= until_steps:
            return rows
        if not active:
            break
        if time.monotonic() > deadline:
            query.stop()
            raise SparkFailed(f"the stream did not end within {STALL_S:.0f} s")
        time.sleep(POLL_S)
    if (error := query.exception()) is not None:
        raise SparkFailed(str(error))
    return rows


def read_parquet(spark: SparkSession, job: DelayJob) -> Statistics:
    """The statistics in the Parquet files."""
    names = [field.name for field in fields(Delays)]
    rows = spark.read.parquet(str(job.parquet)).collect()
    return {(row.carrier, row.month): Delays(**{name: row[name] for name in names}) for row in rows}
