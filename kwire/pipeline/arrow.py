"""How Spark passes records to the writers that run in Python: how many at once, in which form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARROW_RECORDS: Final = 1_000
"""The most records in a batch.  Spark also ends a batch at 64 MB (its setting `maxBytesPerBatch`).

For that it computes the size of the batch again for each record, and the time of this grows with
the number of records in the batch: with batches of 10,000, it was three quarters of the tasks'
time."""
RECORDS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
HEADERS = "array<struct<key:string,value:binary>>"


def limit_batches(query: SparkSession) -> None:
    """Limit the batches of a query's own session, such as the one that foreachBatch gets."""
    query.conf.set(RECORDS_SETTING, str(ARROW_RECORDS))


@contextmanager
def limited_batches(callers: SparkSession) -> Iterator[None]:
    """Limit the batches of the caller's session during the block, then restore its setting."""
    before = callers.conf.get(RECORDS_SETTING, None)
    limit_batches(callers)
    try:
        yield
    finally:
        if before is None:
            callers.conf.unset(RECORDS_SETTING)
        else:
            callers.conf.set(RECORDS_SETTING, before)


def with_headers(rows: DataFrame) -> DataFrame:
    """The rows with an empty array instead of null for records without headers.

    Spark computes the size of a batch with null arrays in it in twice the time.
    """
    from pyspark.sql import functions as f

    return rows.withColumn("headers", f.coalesce("headers", f.expr("array()").cast(HEADERS)))
