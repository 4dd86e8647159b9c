"""Selects the records of an archive that a replay writes, and puts them in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

from kwire.pipeline.archiving.directory import ArchiveDirectory
from kwire.pipeline.archiving.reading import archived
from kwire.pipeline.replaying.pacing import DUE
from kwire.pipeline.replaying.replay_settings import Range, Replay
from kwire.pipeline.rows import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Places = Mapping[tuple[str, int], int]
"""An offset of each (topic, partition) of the archive."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Part:
    """The selected records of one partition of the archive.

    first, end       The range of their offsets; `end` is excluded.
    records          Their number.
    timestamp_ms     The earliest timestamp.
    """

    first: int
    end: int
    records: int
    timestamp_ms: int


Parts = Mapping[tuple[str, int], Part]
"""The part of each (topic, partition) of the archive."""


def topics_of(spark: SparkSession, options: Replay) -> list[str]:
    """The selected topics of the archive."""
    archived_topics = ArchiveDirectory(options.directory).topics()
    if options.topics is None:
        return archived_topics
    if options.topics.pattern is None:
        return list(options.topics.names)
    assert spark._jvm is not None  # a running session has it
    matches = spark._jvm.java.util.regex.Pattern.matches
    return [topic for topic in archived_topics if matches(options.topics.pattern, topic)]


def selected(spark: SparkSession, options: Replay) -> DataFrame:
    """The selected records of the archive as a DataFrame, in no particular order."""
    from pyspark.sql import functions as f

    frame = archived(spark, options.directory, topics_of(spark, options))
    if options.since_ms is not None:
        frame = frame.where(_timestamp_ms() >= options.since_ms)
        frame = frame.where((f.col("date") >= _date(options.since_ms)) | (f.length("date") != 10))
    if options.until_ms is not None:
        frame = frame.where(_timestamp_ms() < options.until_ms)
        frame = frame.where((f.col("date") <= _date(options.until_ms)) | (f.length("date") != 10))
    if options.ranges:
        frame = frame.where(reduce(lambda one, other: one | other, map(_within, options.ranges)))
    return frame


def _within(wanted: Range) -> Column:
    """Return the condition that a record is in a range of offsets; None as an end means no limit
    there."""
    from pyspark.sql import functions as f

    condition = (f.col("topic") == wanted.topic) & (f.col("partition") == wanted.partition)
    if wanted.first is not None:
        condition &= f.col("offset") >= wanted.first
    if wanted.end is not None:
        condition &= f.col("offset") < wanted.end
    return condition


def _timestamp_ms() -> Column:
    from pyspark.sql import functions as f

    return f.unix_millis("timestamp")


def _date(timestamp_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=timestamp_ms)).date().isoformat()


def parts(frame: DataFrame) -> Parts:
    """The part of each partition in a selection."""
    from pyspark.sql import functions as f

    rows = frame.groupBy("topic", "partition").agg(
        f.min("offset"), f.max("offset") + 1, f.count("offset"), f.min(_timestamp_ms())
    )
    return {(row[0], row[1]): Part(*row[2:]) for row in rows.collect()}


def behind(frame: DataFrame, positions: Places) -> DataFrame:
    """The records from the positions on."""
    from pyspark.sql import functions as f

    spark = frame.sparkSession
    known = spark.createDataFrame(
        [(topic, partition, offset) for (topic, partition), offset in positions.items()],
        "topic string, partition int, position bigint",
    )
    joined = frame.join(f.broadcast(known), ["topic", "partition"], "left")
    kept = joined.where(f.col("offset") >= f.coalesce("position", f.lit(0)))
    return kept.drop("position")


def in_order(rows: DataFrame, tasks: int) -> DataFrame:
    """The rows, with all rows of a partition in one task, in the order of offsets."""
    spread = rows.select(*COLUMNS).repartition(tasks, "topic", "partition")
    return spread.sortWithinPartitions("topic", "partition", "offset")


def by_due(rows: DataFrame, tasks: int) -> DataFrame:
    """The rows, with all rows of a partition in one task, in the order of time.

    `tasks` must be as many as can run at once, so that no task waits for another.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    spread = rows.select(*COLUMNS).repartition(tasks, "topic", "partition")
    before = Window.partitionBy("topic", "partition").orderBy("offset")
    due = f.max(_timestamp_ms()).over(before.rowsBetween(Window.unboundedPreceding, 0))
    return spread.withColumn(DUE, due).sortWithinPartitions(DUE, "topic", "partition", "offset")
