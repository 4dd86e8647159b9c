"""How many records Spark passes to Python at once, for the writers that run in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARROW_RECORDS: Final = 1_000
"""The most records in a batch.  With records of 1 MB, the largest that brokers accept by default,
this is 1 GB; Spark's default of 10,000 could exceed the size of an Arrow array.

For each record Spark computes the size of the batch so far (its setting `maxBytesPerBatch`), and
the time of that grows with the number of records in the batch: with batches of 10,000, it was three
quarters of the tasks' time."""


def limit_batches(query: SparkSession) -> None:
    """Limit the batches of a query's own session, such as the one that foreachBatch gets."""
    query.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(ARROW_RECORDS))
