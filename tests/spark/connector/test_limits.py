"""The limits of a micro-batch and of a task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.connector.cluster import Cluster, wait_until
from tests.spark.connector.reading import Kafka, Query, run, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


IDLE_EVENTS = "spark.sql.streaming.noDataProgressEventInterval"


@pytest.fixture
def _idle_events(spark: SparkSession) -> Iterator[None]:
    """An idle query reports the offsets it sees ten times a second."""
    spark.conf.set(IDLE_EVENTS, "100")
    yield
    spark.conf.unset(IDLE_EVENTS)


@pytest.fixture
def topic(cluster: Cluster, unique: str) -> str:
    """30 numbers in partition 0, ten more in partition 1."""
    cluster.create(unique, 2)
    cluster.produce(unique, range(30), 0)
    cluster.produce(unique, range(30, 40), 1)
    return unique


def test_max_offsets_per_trigger_limits_each_micro_batch(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    """Partitions share the limit in proportion to their records, and keep their order."""
    stream = kafka.stream({"subscribe": topic, "maxOffsetsPerTrigger": 8})
    batches = run(stream, tmp_path).batches
    assert [len(batch) for batch in batches] == [8] * 5
    for partition, expected in enumerate((range(30), range(30, 40))):
        found = [int(row.value) for batch in batches for row in batch if row.partition == partition]
        assert found == [*expected]


@pytest.mark.usefixtures("_idle_events")
def test_min_offsets_per_trigger_delays_the_next_micro_batch(
    kafka: Kafka, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """After the first micro-batch, the next one waits until there are enough records."""
    options = {"subscribe": topic, "minOffsetsPerTrigger": 10, "maxTriggerDelay": "1h"}
    with Query(kafka.stream(options), tmp_path) as query:
        assert query.next() == [*range(40)]
        cluster.produce(topic, range(40, 44))
        wait_until(lambda: sees(query, 34), "Spark looks and waits on")
        cluster.produce(topic, range(44, 50))
        assert query.next() == [*range(40, 50)]


def test_max_trigger_delay_ends_the_wait_for_records(
    kafka: Kafka, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """Any number of records is read after this delay."""
    options = {"subscribe": topic, "minOffsetsPerTrigger": 1000, "maxTriggerDelay": "1s"}
    with Query(kafka.stream(options), tmp_path) as query:
        assert query.next() == [*range(40)]
        cluster.produce(topic, range(40, 44))
        assert query.until(4) == [*range(40, 44)]  # the first ones may be read before the others


def sees(query: Query, latest: int) -> bool:
    """Whether Spark has seen this offset of partition 0 and has decided not to read up to it."""
    ends: dict[str, dict[str, int]] | None = query.source.get("latestOffset")
    return ends is not None and [each["0"] for each in ends.values()] == [latest]


def test_min_partitions_splits_a_partition_among_tasks(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    """Tasks read parts of a partition at the same time."""
    options: dict[str, object] = {"subscribe": topic, "minPartitions": 8}
    batch = kafka.batch(options)
    assert batch.rdd.getNumPartitions() >= 8
    assert values(batch.collect()) == [*range(40)]
    stream = run(kafka.stream(options), tmp_path)
    assert min(stream.partitions) >= 8
    assert values(stream.rows) == [*range(40)]


def test_max_records_per_partition_limits_each_task(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    """In a batch, Spark applies the limit only if minPartitions splits the partitions."""
    options: dict[str, object] = {"subscribe": topic, "maxRecordsPerPartition": 6}
    stream = run(kafka.stream(options), tmp_path)
    assert stream.partitions == [5 + 2]
    assert values(stream.rows) == [*range(40)]
    batch = kafka.batch(options | {"minPartitions": 3})
    assert batch.rdd.getNumPartitions() == 5 + 2
    assert values(batch.collect()) == [*range(40)]
