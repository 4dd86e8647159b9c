"""Records that are deleted before Spark reads them: failOnDataLoss says whether that is an error.

Executors run with `auto.offset.reset=none`: an offset before the log start must be answered with
OFFSET_OUT_OF_RANGE, and the new log start be found by ListOffsets.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.connector.cluster import Cluster, wait_until
from tests.spark.connector.reading import Kafka, run, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOST = r"[Dd]ata may have been lost|KAFKA_DATA_LOSS|could not be read|OffsetOutOfRange"
OLD_MS = 1_700_000_000_000

Remove = Callable[[Cluster, str, int], None]


def by_delete_records(cluster: Cluster, topic: str, before: int) -> None:
    cluster.delete_records(topic, before)


def by_retention(cluster: Cluster, topic: str, before: int) -> None:
    """Lower retention.ms, which deletes segments of old records only."""
    cluster.alter(topic, "retention.ms", "3600000")
    wait_until(lambda: cluster.log_start(topic) == before, "retention removes segments")


@pytest.fixture
def topic(cluster: Cluster, unique: str) -> str:
    """The numbers 0 to 9, with old timestamps."""
    cluster.create(unique, config={"retention.ms": "-1", "segment.bytes": "1048576"})
    cluster.produce(unique, range(10), timestamp_ms=lambda _: OLD_MS)
    return unique


@pytest.fixture
def segments(cluster: Cluster, topic: str) -> str:
    """The numbers 0 to 9 in old segments, 10 to 14 in a new one."""
    cluster.alter(topic, "segment.ms", "1")
    cluster.produce(topic, range(10, 15))
    return topic


def read_on(
    kafka: Kafka,
    topic: str,
    checkpoint: Path,
    fail: bool,
    hook: Callable[[int], None] | None = None,
) -> list[int]:
    options: dict[str, object] = {"subscribe": topic, "failOnDataLoss": str(fail).lower()}
    return values(run(kafka.stream(options), checkpoint, hook).rows)


@pytest.mark.usefixtures("fetcher")
def test_records_deleted_between_two_runs_are_skipped_or_an_error(
    kafka: Kafka, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    assert read_on(kafka, topic, tmp_path, fail=True) == [*range(10)]
    cluster.produce(topic, range(10, 20))
    cluster.delete_records(topic, before=13)
    with pytest.raises(Exception, match=LOST):
        read_on(kafka, topic, tmp_path, fail=True)
    assert read_on(kafka, topic, tmp_path, fail=False) == [*range(13, 20)]


@pytest.mark.parametrize(
    ("remove", "before"),
    [(by_delete_records, 4), (by_retention, 10)],
    ids=["delete-records", "retention"],
)
def test_records_deleted_during_a_query_are_an_error(
    kafka: Kafka, cluster: Cluster, segments: str, tmp_path: Path, remove: Remove, before: int
) -> None:
    """The query has chosen its offsets, and the executors have not read them yet."""

    def hook(_: int) -> None:
        if cluster.log_start(segments) < before:
            remove(cluster, segments, before)

    with pytest.raises(Exception, match=LOST):
        read_on(kafka, segments, tmp_path / "fails", True, hook)
    cluster.produce(segments, range(15, 18))
    assert read_on(kafka, segments, tmp_path / "goes on", False, hook) == [*range(before, 18)]


def test_records_deleted_during_a_query_are_skipped(
    kafka: Kafka, cluster: Cluster, segments: str, tmp_path: Path
) -> None:
    def hook(_: int) -> None:
        by_retention(cluster, segments, 10)

    assert read_on(kafka, segments, tmp_path, False, hook) == [*range(10, 15)]


def test_query_continues_after_all_its_records_are_deleted(
    kafka: Kafka, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    def hook(_: int) -> None:
        cluster.delete_records(topic, before=10)

    assert read_on(kafka, topic, tmp_path, False, hook) == []
    cluster.produce(topic, range(10, 12))
    assert read_on(kafka, topic, tmp_path, True) == [10, 11]


def test_batch_from_before_the_log_start_starts_there_or_fails(
    kafka: Kafka, cluster: Cluster, topic: str
) -> None:
    cluster.delete_records(topic, before=6)
    options: dict[str, object] = {
        "subscribe": topic,
        "startingOffsets": json.dumps({topic: {"0": 2}}),
    }
    with pytest.raises(Exception, match=LOST):
        kafka.batch(options | {"failOnDataLoss": "true"}).collect()
    rows = kafka.batch(options | {"failOnDataLoss": "false"}).collect()
    assert values(rows) == [6, 7, 8, 9]


@pytest.mark.usefixtures("fetcher")
def test_recreated_topic_is_read_from_its_start_or_fails_the_query(
    kafka: Kafka, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """Its end offset is below that of the checkpoint."""
    assert read_on(kafka, topic, tmp_path, fail=True) == [*range(10)]
    cluster.delete(topic)
    cluster.create(topic)
    cluster.produce(topic, range(100, 104))
    with pytest.raises(Exception, match=LOST):
        read_on(kafka, topic, tmp_path, fail=True)
    read_on(kafka, topic, tmp_path, fail=False)
    cluster.produce(topic, range(104, 120))
    found = read_on(kafka, topic, tmp_path, fail=False)
    assert found[-10:] == [*range(110, 120)], "what is behind the checkpoint at least"
