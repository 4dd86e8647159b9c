"""An archive's Parquet files have the records of the topics, read by pyarrow and librdkafka."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kwire import pipeline
from kwire.pipeline.archiving.directory import ArchiveDirectory
from kwire.pipeline.demo import flights
from kwire.pipeline.errors import PipelineError
from tests.pipeline.archiving.archives import (
    NOON_MS,
    add_partitions,
    archive_rows,
    archive_table,
    create_topic,
    delete_records,
    produce,
    rows,
    topic_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's own
]


@dataclass
class Bench:
    """An archive under test, and its topics."""

    spark: SparkSession
    bootstrap: str
    topic: str
    directory: Path

    def run(self, **more: Any) -> tuple[pipeline.Ended, pipeline.Published]:  # noqa: ANN401 - fields
        """Run the job once, to its end."""
        what = replace(self.options(), **more)
        ended = pipeline.follow(pipeline.archive(self.spark, what))
        return ended, pipeline.publish(self.spark, what.directory, what.file_size_bytes)

    def options(self) -> pipeline.Archive:
        kafka = pipeline.Kafka(self.bootstrap)
        return pipeline.Archive(kafka, pipeline.Topics((self.topic,)), self.directory)

    def files(self) -> list[Path]:
        return ArchiveDirectory(self.directory).files()


@pytest.fixture
def bench(spark: SparkSession, bootstrap: str, unique: str, tmp_path: Path) -> Bench:
    return Bench(spark, bootstrap, unique, tmp_path / "archive")


def test_archive_has_each_record_unchanged(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 3)
    produce(bench.bootstrap, bench.topic, rows(500, 3))
    ended, published = bench.run()
    assert ended.records == published.records == 500
    assert archive_rows(bench.directory) == topic_rows(bench.bootstrap, bench.topic)
    table = archive_table(bench.directory)
    assert {str(date) for date in table["date"].to_pylist()} == {
        str(stamp.date()) for stamp in table["timestamp"].to_pylist()
    }
    assert len(bench.files()) == published.files == len(set(table["date"].to_pylist()))
    spark_reads = bench.spark.read.parquet(str(bench.directory))
    assert spark_reads.count() == pipeline.archived(bench.spark, bench.directory).count() == 500
    assert spark_reads.where("topic is null or date is null or value is null").count() == 100


def test_flights_are_archived_with_the_time_that_the_broker_gave_them(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 2, message_timestamp_type="LogAppendTime")
    messages = [flights.encode(row) for row in flights.rows(every=500)]
    produce(bench.bootstrap, bench.topic, ({"key": key, "value": v} for key, v in messages))
    bench.run()
    found = archive_rows(bench.directory)
    assert found == topic_rows(bench.bootstrap, bench.topic)
    assert {row.timestamp_type for row in found} == {1}
    assert sorted((row.key, row.value) for row in found) == sorted(messages)


def test_next_run_archives_new_records_partitions_and_topics(bench: Bench) -> None:
    other, stranger = f"{bench.topic}.two", f"not-{bench.topic}"
    topics = pipeline.Topics(pattern=bench.topic.replace(".", r"\.") + r"(\.two)?")
    create_topic(bench.bootstrap, bench.topic, 1)
    create_topic(bench.bootstrap, stranger, 1)
    produce(bench.bootstrap, bench.topic, rows(50, 1))
    produce(bench.bootstrap, stranger, rows(50, 1))
    assert bench.run(topics=topics)[0].records == 50
    assert bench.run(topics=topics)[0].records == 0
    add_partitions(bench.bootstrap, bench.topic, 3)
    create_topic(bench.bootstrap, other, 2)
    produce(bench.bootstrap, bench.topic, rows(60, 3, start=50))
    produce(bench.bootstrap, other, rows(70, 2))
    assert bench.run(topics=topics)[0].records == 130
    assert archive_rows(bench.directory) == topic_rows(bench.bootstrap, bench.topic, other)


def test_aborted_records_are_left_out_without_a_loss_report(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 1)
    producer = Producer({"bootstrap.servers": bench.bootstrap, "transactional.id": bench.topic})
    producer.init_transactions()
    for number in range(10):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(bench.topic, b"%d" % number)
        if number % 3:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    bench.run()
    found = archive_rows(bench.directory)
    assert found == topic_rows(bench.bootstrap, bench.topic)
    assert len(found) == 30
    bench.run(directory=bench.directory.with_name("dirty"), isolation="read_uncommitted")
    assert len(archive_rows(bench.directory.with_name("dirty"))) == 50


@pytest.mark.long
def test_batches_are_joined_to_files_of_the_given_size(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 2)
    same_day = [row | {"timestamp": NOON_MS} for row in rows(4000, 2)]
    produce(bench.bootstrap, bench.topic, same_day)
    ended, published = bench.run(batch_records=400, file_size_bytes=20_000)
    assert ended.steps == 10
    sizes = [path.stat().st_size for path in bench.files()]
    assert 2 <= len(sizes) <= 6
    assert published.files == 1
    assert all(20_000 * 0.3 <= size <= 20_000 * 1.5 for size in sizes[:-1]), sizes
    found = archive_rows(bench.directory)
    assert found == topic_rows(bench.bootstrap, bench.topic)
    in_files: dict[int, list[int]] = {}
    table = archive_table(bench.directory)
    for partition, offset in zip(
        table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True
    ):
        in_files.setdefault(partition, []).append(offset)
    assert in_files == {0: list(range(2000)), 1: list(range(2000))}  # file after file


@pytest.mark.long
def test_records_deleted_before_the_run_fail_it_unless_skipped(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 2)
    produce(bench.bootstrap, bench.topic, rows(100, 2))
    bench.run()
    produce(bench.bootstrap, bench.topic, rows(100, 2, start=100))
    delete_records(bench.bootstrap, bench.topic, {0: 70, 1: 40})
    with pytest.raises(pipeline.RecordsLost, match="removed before they were read") as failed:
        bench.run()
    assert "\n" not in str(failed.value)
    assert len(archive_rows(bench.directory)) == 100
    assert pipeline.lost(bench.directory) == ()
    bench.run(skip_lost=True)
    [lost] = pipeline.lost(bench.directory)
    assert (lost.topic, lost.partition, lost.first, lost.end) == (bench.topic, 0, 50, 70)
    offsets = [row.offset for row in archive_rows(bench.directory) if row.partition == 0]
    assert offsets == [*range(50), *range(70, 100)]


def test_archive_with_another_checkpoint_is_refused(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 1)
    produce(bench.bootstrap, bench.topic, rows(10, 1))
    bench.run()
    checkpoint = ArchiveDirectory(bench.directory).checkpoint
    checkpoint.rename(bench.directory / "_moved")
    with pytest.raises(PipelineError, match="with another checkpoint"):
        bench.run()
    assert len(archive_rows(bench.directory)) == 10


class Reader(threading.Thread):
    """Lists and reads an archive repeatedly, as any program may at any time."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self.stop = threading.Event()
        self.reads = 0
        self.faults: list[str] = []

    def run(self) -> None:
        while not self.stop.is_set():
            table = archive_table(self.directory)
            offsets: dict[tuple[str, int], list[int]] = {}
            if table.num_columns > 2:
                for name, partition, offset in zip(
                    *(table[c].to_pylist() for c in ("topic", "partition", "offset")), strict=True
                ):
                    offsets.setdefault((name, partition), []).append(offset)
            for place, found in offsets.items():
                if sorted(found) != list(range(len(found))):
                    self.faults.append(f"{place}: {len(found)} records, not the first ones")
            self.reads += 1
            self.stop.wait(0.05)  # what it reads while nothing happens is time for others


@pytest.mark.long
def test_continuous_run_shows_complete_files_with_each_record_once(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 2)
    bench.directory.mkdir()
    reader, stop = Reader(bench.directory), threading.Event()
    what = replace(
        bench.options(), every_s=0.1, publish_after_s=0.0, batch_records=200, file_size_bytes=10_000
    )
    produce(bench.bootstrap, bench.topic, [r | {"timestamp": NOON_MS} for r in rows(1500, 2)])
    read = 0

    def on_step(step: Any) -> None:  # noqa: ANN401 - a Step
        nonlocal read
        seen = reader.reads
        while reader.reads == seen and reader.is_alive():  # it looks after each step
            time.sleep(0.01)
        read += step.records
        if read == 1500:
            stop.set()

    reader.start()
    try:
        ended = pipeline.follow(pipeline.archive(bench.spark, what), on_step, stop=stop)
    finally:
        reader.stop.set()
        reader.join()
    assert ended.stopped
    assert reader.reads > 3
    assert reader.faults == []
    assert archive_rows(bench.directory) == topic_rows(bench.bootstrap, bench.topic)
    before = len(bench.files())
    done = pipeline.compact(bench.spark, bench.directory, 1 << 20)
    assert (done.files, done.joined) == (1, before)
    assert archive_rows(bench.directory) == topic_rows(bench.bootstrap, bench.topic)
    assert pipeline.compact(bench.spark, bench.directory, 1 << 20).joined == 0
