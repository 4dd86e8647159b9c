"""Writes records that do not parse to a dead-letter topic, with their position and the reason."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from kwire.pipeline.querying.sinks import to_topic, triggered
from kwire.pipeline.querying.views import WHY, Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

HEADERS = ("kwire.topic", "kwire.partition", "kwire.offset", "kwire.why")
"""The headers that a dead letter has in addition to those of its record."""
DIRECTORY = "dead-letters"


def started(views: Views, topic: str, checkpoint: str | None) -> StreamingQuery:
    """Start a second query over the same topics that writes the dead letters.

    The main query cannot do that: after an aggregation, the bad records are no longer rows.  The
    second query's checkpoint is in a directory of the main query's checkpoint.
    """
    letters = reduce(
        lambda a, b: a.unionByName(b), [_letters(views.bad(name)) for name in views.used]
    )
    writer = triggered(to_topic(letters, views.options.kafka, topic), views.options)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", f"{checkpoint.rstrip('/')}/{DIRECTORY}")
    return writer.outputMode("append").start()


def _letters(bad: DataFrame) -> DataFrame:
    """Return the dead letters of records that do not parse: key and value as they are, and headers
    with the position and the reason after the record's own headers."""
    from pyspark.sql import functions as f

    facts = (f.col("topic"), f.col("partition"), f.col("offset"), f.col(WHY))
    added = f.array(
        *(
            f.struct(f.lit(name).alias("key"), fact.cast("string").cast("binary").alias("value"))
            for name, fact in zip(HEADERS, facts, strict=True)
        )
    )
    before = f.coalesce("headers", f.expr("array()").cast("array<struct<key:string,value:binary>>"))
    return bad.select("key", "value", f.concat(before, added).alias("headers"))
