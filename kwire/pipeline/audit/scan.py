"""Makes a row for every record of the audited topics, with its relation to its neighbours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kwire.pipeline.audit import columns
from kwire.pipeline.audit.audit_settings import PARTS, Audit, Thresholds
from kwire.pipeline.audit.cluster import AuditedTopic
from kwire.pipeline.source import Kafka, Topics, read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession, WindowSpec

DAY_MS = 86_400_000
HOLD_MS = 10 * 60 * 1000
"""How long expired records may stay: until the broker checks (log.retention.check.interval.ms,
5 minutes) and removes the file (file.delete.delay.ms, 1 minute), with some margin."""

NEGATIVE, FUTURE, APART, OLD = "negative", "future", "apart", "old"
TIMES = (NEGATIVE, FUTURE, APART, OLD)
"""The faults of a timestamp.  A record has at most one of them."""


def examined(
    spark: SparkSession, kafka: Kafka, topics: Sequence[AuditedTopic], options: Audit, now_ms: int
) -> DataFrame:
    """A row for each record.  The topics are read once.

    topic, partition, offset, timestamp_ms
    key              Its first kilobyte, or null if the record has none.
    key_digest, digest          Hashes of 128 bits: of the key, and of all parts of the record.
    key_bytes, value_bytes      -1 for null.
    headers_bytes, header_names
    size_bytes       The size of key, value and headers.
    is_append_time   Whether the broker set the timestamp.
    gap              The number of missing offsets before it.
    time_is          One of TIMES, or null.
    back_ms          How much earlier its timestamp is than that of the record before; records with
                     `time_is` are left out.
    identity         The field `identity` of the settings, or null if the record has none.
    sequence         The field `sequence` of the settings; `step` is its increase since the record
                     before.
    """
    from pyspark.sql import functions as f

    names = Topics(tuple(topic.name for topic in topics))
    records = read(
        spark,
        kafka,
        names,
        starting={name: part for topic in topics for name, part in topic.starting.items()},
        ending={name: part for topic in topics for name, part in topic.ending.items()},
        failOnDataLoss="false",  # records that retention deletes meanwhile are counted as deleted
    )
    facts = f.broadcast(facts_frame(spark, topics, now_ms))
    return _compared(
        _reduced(records, options).join(facts, ["topic", "partition"]), options, now_ms
    )


def facts_frame(spark: SparkSession, topics: Iterable[AuditedTopic], now_ms: int) -> DataFrame:
    """A row for each partition: `start`, `oldest_ms`, and the topic's number of `partitions`."""
    rows = [
        {
            "topic": topic.name,
            "partition": part.partition,
            "start": part.start,
            "partitions": len(topic.ranges),
            "oldest_ms": oldest_ms(topic, now_ms),
        }
        for topic in topics
        for part in topic.ranges
    ]
    return frame(
        spark, "topic string, partition int, start long, partitions int, oldest_ms long", rows
    )


def frame(spark: SparkSession, schema: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """A small DataFrame.  Unlike createDataFrame, this needs no Python worker."""
    from pyspark.sql import functions as f

    text = f.lit(json.dumps(rows))
    return spark.range(1).select(f.inline(f.from_json(text, f"array<struct<{_typed(schema)}>>")))


def _typed(schema: str) -> str:
    """`a int, b long` -> `a: int, b: long`."""
    return ", ".join(": ".join(column.split()) for column in schema.split(","))


def oldest_ms(topic: AuditedTopic, now_ms: int) -> int | None:
    """The time before which records should have been deleted; None without retention by time.

    Retention deletes whole segments.  So a record may stay until its segment is rolled (segment.ms)
    and the last record of the segment has expired.
    """
    retention_ms = topic.number("retention.ms", -1)
    if "delete" not in topic.policies or retention_ms < 0:
        return None
    return now_ms - retention_ms - topic.number("segment.ms", 7 * DAY_MS) - HOLD_MS


def _reduced(records: DataFrame, options: Audit) -> DataFrame:
    """Columns of bounded size, made of those of Spark's source."""
    from pyspark.sql import functions as f

    none = f.lit(None)
    names = f.transform("headers", lambda h: f.substring(h["key"], 1, columns.FIELD_CHARS_MAX))
    return records.select(
        "topic",
        "partition",
        "offset",
        columns.timestamp_ms().alias("timestamp_ms"),
        f.substring("key", 1, columns.KEY_BYTES_MAX).alias("key"),
        columns.digest(["key"]).alias("key_digest"),
        columns.digest(PARTS).alias("digest"),
        columns.size_of("key").alias("key_bytes"),
        columns.size_of("value").alias("value_bytes"),
        columns.headers_bytes().alias("headers_bytes"),
        names.alias("header_names"),
        (f.col("timestampType") == 1).alias("is_append_time"),
        _cut(columns.field_of(options.identity) if options.identity else none).alias("identity"),
        (columns.number_of(options.sequence) if options.sequence else none.cast("long")).alias(
            "sequence"
        ),
    ).withColumn(
        "size_bytes",
        f.greatest("key_bytes", f.lit(0))
        + f.greatest("value_bytes", f.lit(0))
        + f.col("headers_bytes"),
    )


def _cut(text: Column) -> Column:
    """The text if it is short, or else its SHA-256."""
    from pyspark.sql import functions as f

    text = text.cast("string")
    is_short = f.length(text) <= columns.FIELD_CHARS_MAX
    return f.when(is_short, text).otherwise(f.sha2(text.cast("binary"), 256))


def _compared(records: DataFrame, options: Audit, now_ms: int) -> DataFrame:
    """Adds columns that depend on the records before and after in the partition."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("topic", "partition").orderBy("offset")
    by_key = Window.partitionBy("topic", "partition", "key_digest").orderBy("offset")
    limits = options.thresholds
    t = f.col("timestamp_ms")
    plausible = f.when((t >= 0) & (t <= now_ms + limits.future_ms), t)
    placed = records.select(
        "*",
        (f.col("offset") - f.lag("offset").over(order)).alias("_on"),
        f.lag(plausible).over(order).alias("_before"),
        f.lead(plausible).over(order).alias("_after"),
    )
    timed = placed.withColumns(
        {
            "gap": f.coalesce(f.col("_on"), f.col("offset") - f.col("start") + 1) - 1,
            "time_is": _time_is(limits, now_ms),
        }
    ).drop("_on", "_before", "_after", "start")
    return timed.withColumns(
        {
            "back_ms": _back_ms(order),
            "step": _step(by_key if options.sequence_by_key else order),
        }
    ).drop("oldest_ms")


def _time_is(limits: Thresholds, now_ms: int) -> Column:
    """Return a column that says what is wrong with a timestamp, or null.  A record is APART only
    if its neighbours agree with each other, since then the record itself is the wrong one."""
    from pyspark.sql import functions as f

    t, before, after = f.col("timestamp_ms"), f.col("_before"), f.col("_after")
    far = f.lit(limits.apart_ms)
    agreeing = f.abs(before - after) <= far
    late, early = f.greatest(before, after) + far, f.least(before, after) - far
    return (
        f.when(t < 0, NEGATIVE)
        .when(t > now_ms + limits.future_ms, FUTURE)
        .when(before.isNotNull() & after.isNotNull() & agreeing & ((t > late) | (t < early)), APART)
        .when(t < f.col("oldest_ms"), OLD)
    )


def _back_ms(order: WindowSpec) -> Column:
    """Return a column: by how many ms a timestamp is earlier than the last usual one before it."""
    from pyspark.sql import functions as f

    usual = f.when(f.col("time_is").isNull() | (f.col("time_is") == OLD), f.col("timestamp_ms"))
    return f.greatest(_last(usual, order) - usual, f.lit(0))


def _step(order: WindowSpec) -> Column:
    from pyspark.sql import functions as f

    return f.col("sequence") - _last(f.col("sequence"), order)


def _last(column: Column, order: WindowSpec) -> Column:
    """The last value that is not null in the records before."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return f.last(column, ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))
