"""Topics and partitions that are added or deleted while a query runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.connector.cluster import Cluster
from tests.spark.connector.reading import Kafka, Query

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("fetcher")]

SOON = {"kafka.metadata.max.age.ms": "200"}  # a consumer learns of what is new by looking again
PATIENCE_MS = 3_000
"""How long a consumer asks where a partition ends that is gone."""


def test_query_reads_a_new_partition_from_its_start(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """It is read from its earliest offset, for any start of the query."""
    cluster.create(unique)
    cluster.produce(unique, range(3))
    options = {"subscribe": unique, "startingOffsets": json.dumps({unique: {"0": 1}})} | SOON
    with Query(kafka.stream(options), tmp_path) as query:
        assert query.until(2) == [1, 2]
        cluster.add_partitions(unique, 2)
        cluster.produce(unique, range(3, 8), partition=1)
        assert query.until(5) == [*range(3, 8)]


def test_query_reads_a_new_topic(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    cluster.create(f"{unique}-a")
    cluster.produce(f"{unique}-a", range(3))
    options = {"subscribePattern": f"{unique}-[ab]"} | SOON
    with Query(kafka.stream(options), tmp_path) as query:
        assert query.until(3) == [0, 1, 2]
        cluster.create(f"{unique}-b")
        cluster.produce(f"{unique}-b", range(3, 8))
        assert query.until(5) == [*range(3, 8)]


@pytest.mark.parametrize("fail", [True, False])
def test_deleted_topic_fails_the_query_or_is_skipped(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path, fail: bool
) -> None:
    for number, name in enumerate("ab"):
        cluster.create(f"{unique}-{name}")
        cluster.produce(f"{unique}-{name}", range(3 * number, 3 * number + 3))
    options = {
        "subscribePattern": f"{unique}-[ab]",
        "failOnDataLoss": str(fail).lower(),
        "kafka.request.timeout.ms": PATIENCE_MS,
        "kafka.default.api.timeout.ms": PATIENCE_MS,
    } | SOON
    with Query(kafka.stream(options), tmp_path) as query:
        assert query.until(6) == [*range(6)]
        cluster.delete(f"{unique}-b")
        if fail:
            with pytest.raises(Exception, match=r"are gone|KAFKA_DATA_LOSS|may have been"):
                query.end()
        else:
            cluster.produce(f"{unique}-a", range(6, 9))
            assert query.until(3) == [6, 7, 8]
