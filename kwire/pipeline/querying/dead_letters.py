"""Records that do not parse, to a topic of their own: as they are, with where they were and why."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from kwire.pipeline.querying.sinks import to_topic, triggered
from kwire.pipeline.querying.views import WHY, Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

HEADERS = ("kwire.topic", "kwire.partition", "kwire.offset", "kwire.why")
"""What a dead letter has besides the headers of its record."""
DIRECTORY = "dead-letters"


def started(views: Views, topic: str, checkpoint: str | None) -> StreamingQuery:
    """A query beside the main one, over the same topics: an aggregation has no rows to set aside.

    Its own checkpoint is in a directory of the main one's.
    """
    letters = reduce(
        lambda a, b: a.unionByName(b), [_letters(views.bad(name)) for name in views.used]
    )
    writer = triggered(to_topic(letters, views.asked.kafka, topic), views.asked)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", f"{checkpoint.rstrip('/')}/{DIRECTORY}")
    return writer.outputMode("append").start()


def _letters(bad: DataFrame) -> DataFrame:
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
