"""The number of records that Spark passes to Python at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.pipeline.arrow import ARROW_RECORDS, RECORDS_SETTING, limited_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def batch_sizes(spark: SparkSession, records: int) -> list[int]:
    """The number of records in each batch that Python gets."""
    rows = spark.range(0, records, 1, 1)
    counted = rows.mapInArrow(lambda batches: map(_count, batches), "records BIGINT")
    return [row.records for row in counted.collect()]


def _count(batch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - runs in Spark's worker
    import pyarrow

    return pyarrow.RecordBatch.from_pydict({"records": [batch.num_rows]})


@pytest.mark.parametrize("before", [None, "3000"])
def test_callers_session_has_small_batches_during_the_block_only(
    spark: SparkSession, before: str | None
) -> None:
    session = spark.newSession()
    if before is not None:
        session.conf.set(RECORDS_SETTING, before)
    with limited_batches(session):
        assert batch_sizes(session, 2 * ARROW_RECORDS) == [ARROW_RECORDS, ARROW_RECORDS]
    assert session.conf.get(RECORDS_SETTING, None) == before
    assert batch_sizes(session, 2 * ARROW_RECORDS) == [2 * ARROW_RECORDS]
