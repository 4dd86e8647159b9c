"""Real-time Mode: a batch takes as long as its trigger says, and passes records on meanwhile.

Spark has it since 4.1 for queries without state, in the output mode `update`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.connector.cluster import Cluster
from tests.spark.connector.copying import Copy
from tests.spark.connector.reading import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(
        metadata.version("pyspark").startswith("4.0."), reason="Spark 4.0 has no Real-time Mode"
    ),
]

SHORTEST = "spark.sql.streaming.realTimeMode.minBatchDuration"


@pytest.fixture
def _short_batches(spark: SparkSession) -> Iterator[None]:
    """Allow batches of less than five seconds."""
    spark.conf.set(SHORTEST, "200")
    yield
    spark.conf.unset(SHORTEST)


def test_real_time_query_passes_records_on_before_its_batch_ends(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    source, sink = cluster.create(f"{unique}-source"), cluster.create(f"{unique}-sink")
    with Copy(kafka, cluster, source, sink, tmp_path, {"realTime": "1 hour"}, "update") as copy:
        for count in (10, 20):
            cluster.produce(source, range(count - 10, count))
            copy.passes_on(count)
        assert copy.noted() == 0
    assert cluster.numbers(sink) == [*range(1000, 1020)]


def test_real_time_query_writes_the_records_of_an_unfinished_batch_again_after_a_stop(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    source, sink = cluster.create(f"{unique}-source"), cluster.create(f"{unique}-sink")
    cluster.produce(source, range(10))
    for count in (10, 20):
        with Copy(kafka, cluster, source, sink, tmp_path, {"realTime": "1 hour"}, "update") as copy:
            copy.passes_on(count)
    assert cluster.numbers(sink) == sorted([*range(1000, 1010)] * 2)


@pytest.mark.usefixtures("_short_batches")
def test_real_time_query_copies_records_before_and_after_a_restart(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    source, sink = cluster.create(f"{unique}-source"), cluster.create(f"{unique}-sink")
    cluster.produce(source, range(10))
    trigger = {"realTime": "500 milliseconds"}
    with Copy(kafka, cluster, source, sink, tmp_path, trigger, "update") as copy:
        copy.comes_to(10)
        cluster.produce(source, range(10, 20))
        copy.comes_to(20)
    cluster.produce(source, range(20, 30))
    with Copy(kafka, cluster, source, sink, tmp_path, trigger, "update") as copy:
        copy.comes_to(30)
