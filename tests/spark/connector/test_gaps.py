"""Offsets without a record: transaction markers, aborted records, and compacted records.

None of them is a loss: everything here runs with failOnDataLoss=true.  A range may begin, end or
lie wholly in a gap (SPARK-17147, SPARK-23685, SPARK-24720).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.connector.cluster import Cluster, wait_until
from tests.spark.connector.conftest import Read
from tests.spark.connector.reading import Kafka, run, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture
def transactions(cluster: Cluster, unique: str) -> str:
    """Committed 0-2, aborted 3-5, committed 6, aborted 7-9, each followed by its marker."""
    cluster.create(unique)
    cluster.commit(unique, range(3))
    cluster.abort(unique, range(3, 6))
    cluster.commit(unique, range(6, 7))
    cluster.abort(unique, range(7, 10))
    return unique


def test_read_committed_leaves_out_aborted_and_open_transactions(
    read: Read, transactions: str
) -> None:
    assert values(read({"subscribe": transactions} | COMMITTED)) == [0, 1, 2, 6]


def test_read_uncommitted_has_all_records(read: Read, transactions: str) -> None:
    assert values(read({"subscribe": transactions})) == [*range(10)]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_micro_batches_begin_and_end_at_markers(
    kafka: Kafka, transactions: str, tmp_path: Path, step: int
) -> None:
    options = {"subscribe": transactions, "maxOffsetsPerTrigger": step} | COMMITTED
    found = run(kafka.stream(options), tmp_path)
    assert [int(row.value) for row in found.rows] == [0, 1, 2, 6]
    assert len(found.batches) == -(-14 // step), "ten records and four markers"


def test_tasks_begin_and_end_at_markers(kafka: Kafka, transactions: str) -> None:
    options = {"subscribe": transactions, "minPartitions": 14} | COMMITTED
    frame = kafka.batch(options)
    assert frame.rdd.getNumPartitions() == 14
    assert values(frame.collect()) == [0, 1, 2, 6]


@pytest.mark.usefixtures("fetcher")
def test_read_committed_ends_at_an_open_transaction(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """The end of a committed read is the last stable offset."""
    cluster.create(unique)
    cluster.produce(unique, range(3))
    stream = kafka.stream({"subscribe": unique} | COMMITTED)
    with cluster.transaction(unique, range(3, 6)) as producer:
        cluster.produce(unique, range(6, 8))
        assert values(run(stream, tmp_path).rows) == [0, 1, 2]
        assert values(kafka.batch({"subscribe": unique}).collect()) == [*range(8)]
        producer.commit_transaction()
    assert values(run(stream, tmp_path).rows) == [*range(3, 8)]


@pytest.fixture
def compacted(cluster: Cluster, unique: str) -> str:
    """Records at offsets 0, 10, 20, 30 and from 39 on."""
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1"}
    cluster.create(unique, config=config)
    cluster.produce(unique, range(40), key=lambda n: "kept" * (n % 10 == 0) + str(n // 10))
    cluster.produce(unique, range(40, 41))  # begins a segment: the one before it may be cleaned
    wait_until(lambda: len(cluster.messages(unique)) == 9, "the cleaner runs")
    return unique


LEFT = [0, 9, 10, 19, 20, 29, 30, 39, 40]


def test_compacted_log_is_read(read: Read, compacted: str) -> None:
    assert values(read({"subscribe": compacted})) == LEFT


def test_ranges_that_lie_in_a_gap_are_empty(kafka: Kafka, compacted: str, tmp_path: Path) -> None:
    options = {"subscribe": compacted, "maxOffsetsPerTrigger": 4}
    found = run(kafka.stream(options), tmp_path)
    assert values(found.rows) == LEFT
    assert [] in found.batches
    batch = kafka.batch({"subscribe": compacted, "minPartitions": 15})
    assert batch.rdd.getNumPartitions() >= 15
    assert values(batch.collect()) == LEFT
