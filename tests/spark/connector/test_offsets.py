"""The start and end of a query: by name, by offset, by time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.spark.connector.cluster import Cluster
from tests.spark.connector.conftest import Read
from tests.spark.connector.reading import Kafka, run, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BASE_MS = 1_700_000_000_000
STEP_MS = 1_000


@pytest.fixture
def topic(cluster: Cluster, unique: str) -> str:
    """The numbers 0 to 9 in partition 0 and 10 to 19 in partition 1, a second apart."""
    cluster.create(unique, 2, {"retention.ms": "-1"})
    for partition in range(2):
        first = 10 * partition
        cluster.produce(unique, range(first, first + 10), partition, timestamp_ms=time_of)
    return unique


def time_of(number: int) -> int:
    """The timestamp of a number: its position in the partition is the second."""
    return BASE_MS + STEP_MS * (number % 10)


def each(topic: str, first: int, second: int) -> str:
    """An option's value for both partitions."""
    return json.dumps({topic: {"0": first, "1": second}})


# -- by name


def test_query_from_earliest_reads_all_records(read: Read, topic: str) -> None:
    assert values(read({"subscribe": topic, "startingOffsets": "earliest"})) == [*range(20)]


@pytest.mark.usefixtures("fetcher")
def test_stream_from_latest_reads_later_records(
    kafka: Kafka, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    latest = kafka.stream({"subscribe": topic, "startingOffsets": "latest"})
    assert run(latest, tmp_path).rows == []
    cluster.produce(topic, range(20, 25))
    assert values(run(latest, tmp_path).rows) == [*range(20, 25)]


# -- by offset


def test_query_starts_at_the_offsets_of_each_partition(read: Read, topic: str) -> None:
    assert values(read({"subscribe": topic, "startingOffsets": each(topic, 7, -2)})) == [
        *range(7, 20)
    ]


@pytest.mark.usefixtures("fetcher")
def test_stream_starts_at_the_latest_offset_of_one_partition(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    options: dict[str, object] = {"subscribe": topic, "startingOffsets": each(topic, -1, 4)}
    assert values(run(kafka.stream(options), tmp_path).rows) == [*range(14, 20)]


@pytest.mark.usefixtures("fetcher")
def test_batch_reads_between_starting_and_ending_offsets(kafka: Kafka, topic: str) -> None:
    options = {
        "subscribe": topic,
        "startingOffsets": each(topic, 2, 5),
        "endingOffsets": each(topic, 4, -1),
    }
    assert values(kafka.batch(options).collect()) == [2, 3, *range(15, 20)]


# -- by time


def test_query_starts_at_a_timestamp(read: Read, topic: str) -> None:
    rows = read({"subscribe": topic, "startingTimestamp": BASE_MS + 6 * STEP_MS - 1})
    assert values(rows) == [6, 7, 8, 9, 16, 17, 18, 19]


def test_query_starts_at_a_timestamp_of_each_partition(read: Read, topic: str) -> None:
    times = each(topic, BASE_MS + 8 * STEP_MS, BASE_MS + 9 * STEP_MS)
    rows = read({"subscribe": topic, "startingOffsetsByTimestamp": times})
    assert values(rows) == [8, 9, 19]


@pytest.mark.usefixtures("fetcher")
def test_batch_ends_before_a_timestamp(kafka: Kafka, topic: str) -> None:
    options = {"subscribe": topic, "endingTimestamp": BASE_MS + 2 * STEP_MS}
    assert values(kafka.batch(options).collect()) == [0, 1, 10, 11]


@pytest.mark.usefixtures("fetcher")
def test_ending_offsets_by_timestamp_and_none_matching(kafka: Kafka, topic: str) -> None:
    """Where no record is as late, the end is the latest offset."""
    times = each(topic, BASE_MS + STEP_MS, BASE_MS + 60 * STEP_MS)
    options = {"subscribe": topic, "endingOffsetsByTimestamp": times}
    assert values(kafka.batch(options).collect()) == [0, *range(10, 20)]


@pytest.mark.parametrize(
    "late",
    [
        {"startingTimestamp": BASE_MS + 60 * STEP_MS},
        {"startingOffsetsByTimestamp": (BASE_MS, BASE_MS + 60 * STEP_MS)},
    ],
    ids=["global", "of-a-partition"],
)
@pytest.mark.parametrize("strategy", ["error", None])
@pytest.mark.usefixtures("fetcher")
def test_none_matching_is_an_error(
    kafka: Kafka, topic: str, late: dict[str, object], strategy: str | None
) -> None:
    options = {"subscribe": topic} | spelled(late, topic)
    if strategy:
        options["startingOffsetsByTimestampStrategy"] = strategy
    with pytest.raises(Exception, match=r"No offset matched|KAFKA.*TIMESTAMP"):
        kafka.batch(options).collect()


def test_none_matching_is_the_latest(read: Read, topic: str) -> None:
    late = {"startingOffsetsByTimestamp": (BASE_MS + 8 * STEP_MS, BASE_MS + 60 * STEP_MS)}
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert values(read({"subscribe": topic} | strategy | spelled(late, topic))) == [8, 9]
    globally: dict[str, object] = {"startingTimestamp": BASE_MS + 60 * STEP_MS}
    assert read({"subscribe": topic} | strategy | globally) == []


def spelled(options: Mapping[str, object], topic: str) -> dict[str, object]:
    """The option with pairs of values as JSON for both partitions."""
    return {
        name: each(topic, *value) if isinstance(value, tuple) else value
        for name, value in options.items()
    }
