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
    """What of one partition of the archive is to be written.

    first, end       Its offsets: up to, without, `end`.
    records          That many.
    timestamp_ms     The earliest.
    """

    first: int
    end: int
    records: int
    timestamp_ms: int


Parts = Mapping[tuple[str, int], Part]
"""Of each (topic, partition) of the archive."""


def topics_of(spark: SparkSession, asked: Replay) -> list[str]:
    """The archive's topics that are meant."""
    known = ArchiveDirectory(asked.directory).topics()
    if asked.topics is None:
        return known
    if asked.topics.pattern is None:
        return list(asked.topics.names)
    assert spark._jvm is not None  # of a session that runs
    matches = spark._jvm.java.util.regex.Pattern.matches
    return [topic for topic in known if matches(asked.topics.pattern, topic)]


def selected(spark: SparkSession, asked: Replay) -> DataFrame:
    """The archive's records that are meant, as a DataFrame in no particular order."""
    from pyspark.sql import functions as f

    frame = archived(spark, asked.directory, topics_of(spark, asked))
    if asked.since_ms is not None:
        frame = frame.where(_timestamp_ms() >= asked.since_ms)
        frame = frame.where((f.col("date") >= _date(asked.since_ms)) | (f.length("date") != 10))
    if asked.until_ms is not None:
        frame = frame.where(_timestamp_ms() < asked.until_ms)
        frame = frame.where((f.col("date") <= _date(asked.until_ms)) | (f.length("date") != 10))
    if asked.ranges:
        frame = frame.where(reduce(lambda one, other: one | other, map(_within, asked.ranges)))
    return frame


def _within(wanted: Range) -> Column:
    from pyspark.sql import functions as f

    found = (f.col("topic") == wanted.topic) & (f.col("partition") == wanted.partition)
    if wanted.first is not None:
        found &= f.col("offset") >= wanted.first
    if wanted.end is not None:
        found &= f.col("offset") < wanted.end
    return found


def _timestamp_ms() -> Column:
    from pyspark.sql import functions as f

    return f.unix_millis("timestamp")


def _date(timestamp_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=timestamp_ms)).date().isoformat()


def parts(frame: DataFrame) -> Parts:
    """What a selection has of each partition."""
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
    """Each partition whole in one task, in the order of its offsets."""
    spread = rows.select(*COLUMNS).repartition(tasks, "topic", "partition")
    return spread.sortWithinPartitions("topic", "partition", "offset")


def by_due(rows: DataFrame, tasks: int) -> DataFrame:
    """Each partition whole in one task, all of the task's in the order of time.

    The tasks are as many as can run at once: none waits for another to end.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    spread = rows.select(*COLUMNS).repartition(tasks, "topic", "partition")
    before = Window.partitionBy("topic", "partition").orderBy("offset")
    due = f.max(_timestamp_ms()).over(before.rowsBetween(Window.unboundedPreceding, 0))
    return spread.withColumn(DUE, due).sortWithinPartitions(DUE, "topic", "partition", "offset")
