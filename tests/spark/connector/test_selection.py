"""The topics and partitions that a query reads, and the values of its columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.connector.cluster import Cluster, Headers
from tests.spark.connector.conftest import Read
from tests.spark.connector.reading import Kafka, run, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BASE_MS = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}  # however old its records are


def filled(cluster: Cluster, topic: str, first: int, partitions: int = 2) -> str:
    """A topic with ten numbers in each partition, the first one's from `first` on."""
    cluster.create(topic, partitions)
    for partition in range(partitions):
        cluster.produce(
            topic, range(first + 10 * partition, first + 10 * partition + 10), partition
        )
    return topic


def test_subscribe_reads_the_topics_it_names(read: Read, cluster: Cluster, unique: str) -> None:
    topics = [filled(cluster, f"{unique}-{number}", 100 * number) for number in range(3)]
    rows = read({"subscribe": ",".join(topics[:2])})
    assert values(rows) == [*range(20), *range(100, 120)]
    assert {row.topic for row in rows} == set(topics[:2])


def test_subscribe_pattern_reads_what_matches(read: Read, cluster: Cluster, unique: str) -> None:
    for number, name in enumerate(("a", "b", "c")):
        filled(cluster, f"{unique}-{name}", 100 * number)
    assert values(read({"subscribePattern": f"{unique}-[ab]"})) == [*range(20), *range(100, 120)]


def test_assign_reads_these_partitions_alone(read: Read, cluster: Cluster, unique: str) -> None:
    topic = filled(cluster, unique, 0, partitions=3)
    rows = read({"assign": json.dumps({topic: [0, 2]})})
    assert values(rows) == [*range(10), *range(20, 30)]
    assert {row.partition for row in rows} == {0, 2}


def test_columns_are_as_produced(read: Read, cluster: Cluster, unique: str) -> None:
    headers: Headers = [("a", b"1"), ("a", b""), ("none", None)]
    cluster.create(unique, config=KEPT)
    cluster.produce(unique, range(3), timestamp_ms=lambda n: BASE_MS + n, headers=headers)
    rows = sorted(read({"subscribe": unique, "includeHeaders": True}), key=lambda row: row.offset)
    assert [(row.key, row.value) for row in rows] == [(b"%d" % n, b"%d" % n) for n in range(3)]
    assert [(row.topic, row.partition, row.offset) for row in rows] == [
        (unique, 0, n) for n in range(3)
    ]
    assert [(row.timestampType, row.timestamp.timestamp() * 1000) for row in rows] == [
        (0, BASE_MS + n) for n in range(3)
    ]
    for row in rows:
        assert [(header.key, header.value) for header in row.headers] == headers


def test_rows_of_a_log_append_time_topic_have_the_brokers_timestamp(
    kafka: Kafka, cluster: Cluster, unique: str
) -> None:
    cluster.create(unique, config={"message.timestamp.type": "LogAppendTime"})
    cluster.produce(unique, range(2), timestamp_ms=lambda n: BASE_MS)
    rows = kafka.batch({"subscribe": unique}).collect()
    assert [row.timestampType for row in rows] == [1, 1]
    assert all(row.timestamp.timestamp() * 1000 > BASE_MS for row in rows)


def test_null_keys_values_and_headers_are_read_as_null(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    cluster.create(unique)
    nulls = kafka.spark.createDataFrame([(None, None)], "key binary, value binary")
    kafka.write(nulls, {"topic": unique})
    (row,) = run(kafka.stream({"subscribe": unique, "includeHeaders": True}), tmp_path).rows
    assert (row.key, row.value, row.headers) == (None, None, None)


def test_empty_topic_has_no_rows(read: Read, cluster: Cluster, unique: str) -> None:
    cluster.create(unique, 2)
    assert read({"subscribe": unique}) == []


@pytest.mark.parametrize("fetcher", ["admin"], indirect=True)
def test_missing_topic_fails_the_query(read: Read, unique: str) -> None:
    with pytest.raises(Exception, match="UnknownTopicOrPartition"):
        read({"subscribe": unique})
