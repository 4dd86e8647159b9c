"""A replay of an archive: librdkafka reads the same records as in the archived topics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kwire import pipeline
from kwire.pipeline.errors import PipelineError
from tests.pipeline.archiving.archives import (
    HOUR_MS,
    NOON_MS,
    Row,
    create_topic,
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
    """An archive, and topics to replay it to."""

    spark: SparkSession
    bootstrap: str
    topic: str
    directory: Path

    @property
    def target(self) -> str:
        return f"{self.topic}-again"

    def archive(self) -> None:
        kafka, topics = pipeline.Kafka(self.bootstrap), pipeline.Topics((self.topic,))
        options = pipeline.Archive(kafka, topics, self.directory)
        pipeline.follow(pipeline.archive(self.spark, options))
        pipeline.publish(self.spark, self.directory, options.file_size_bytes)

    def options(self, **more: Any) -> pipeline.Replay:  # noqa: ANN401 - fields of Replay
        kafka, topics = pipeline.Kafka(self.bootstrap), pipeline.Topics((self.topic,))
        rename = {self.topic: self.target}
        options = pipeline.Replay(kafka, self.directory, topics, rename=rename)
        return replace(options, **more)

    def replay(self, **more: Any) -> pipeline.Replayed:  # noqa: ANN401 - fields of Replay
        return pipeline.replay(self.spark, self.options(**more))

    def rows(self) -> list[Row]:
        return topic_rows(self.bootstrap, self.topic)


@pytest.fixture
def bench(spark: SparkSession, bootstrap: str, unique: str, tmp_path: Path) -> Bench:
    return Bench(spark, bootstrap, unique, tmp_path / "archive")


def bare(found: list[Row]) -> list[tuple[object, ...]]:
    """Records in the order of their partition, without topic and offset."""
    return [
        (r.partition, r.timestamp_ms, r.timestamp_type, r.key, r.value, r.headers) for r in found
    ]


def settings(bootstrap: str, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_configs([resource])[resource].result(120)
    return {name: entry.value for name, entry in described.items()}


def test_replayed_topic_has_each_archived_record_once(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 3)
    produce(bench.bootstrap, bench.topic, rows(300, 3))
    bench.archive()
    done = bench.replay()
    assert (done.records, done.there, done.partitions) == (300, 0, 3)
    assert done.created == [bench.target]
    assert settings(bench.bootstrap, bench.target)["retention.ms"] == "-1"
    found = topic_rows(bench.bootstrap, bench.target)
    assert bare(found) == bare(bench.rows())
    produce(bench.bootstrap, bench.topic, rows(30, 3, start=300))
    bench.archive()
    more = bench.replay()
    assert (more.records, more.there, more.created) == (30, 300, [])
    found = topic_rows(bench.bootstrap, bench.target)
    assert bare(found) == bare(bench.rows())
    assert bench.replay(name="once-more").records == 330
    assert len(topic_rows(bench.bootstrap, bench.target)) == 660


def test_gaps_in_the_offsets_do_not_matter(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 1)
    producer = Producer({"bootstrap.servers": bench.bootstrap, "transactional.id": bench.topic})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(bench.topic, b"%d" % number)
        producer.flush()
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    bench.archive()
    assert bench.replay().records == 15
    assert bare(topic_rows(bench.bootstrap, bench.target)) == bare(bench.rows())


@pytest.mark.long
def test_times_and_offsets_select_the_replayed_records(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 2)
    produce(bench.bootstrap, bench.topic, rows(100, 2))
    bench.archive()
    since, until = NOON_MS + 20 * HOUR_MS, NOON_MS + 50 * HOUR_MS
    assert bench.replay(since_ms=since, until_ms=until).records == 30
    expected = [row for row in bench.rows() if since <= row.timestamp_ms < until]
    assert bare(topic_rows(bench.bootstrap, bench.target)) == bare(expected)
    other = f"{bench.topic}-other"
    ranges = (
        pipeline.Range(bench.topic, 0, 5, 15),
        pipeline.Range(bench.topic, 1, first=45),
    )
    assert bench.replay(ranges=ranges, rename={bench.topic: other}).records == 15
    expected = [
        row
        for row in bench.rows()
        if (row.partition == 0 and 5 <= row.offset < 15)
        or (row.partition == 1 and row.offset >= 45)
    ]
    assert bare(topic_rows(bench.bootstrap, other)) == bare(expected)


def test_targets_that_cannot_take_the_records_are_refused(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 3)
    produce(bench.bootstrap, bench.topic, rows(30, 3))
    bench.archive()
    create_topic(bench.bootstrap, bench.target, 2)
    with pytest.raises(PipelineError, match=r"has 2 partitions, and records of .* need 3"):
        bench.replay()
    stamped = f"{bench.topic}-stamped"
    create_topic(bench.bootstrap, stamped, 3, message_timestamp_type="LogAppendTime")
    with pytest.raises(PipelineError, match="would lose their timestamps"):
        bench.replay(rename={bench.topic: stamped})
    with pytest.raises(PipelineError, match="has no topic nothing"):
        bench.replay(topics=pipeline.Topics(("nothing",)), rename={})
    with pytest.raises(PipelineError, match="is to be renamed, but is not replayed"):
        bench.replay(rename={"nothing": "something"})


def paced_rows(count: int, partitions: int, step_ms: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "value": b"%d" % number,
            "partition": number % partitions,
            "timestamp": NOON_MS + number * step_ms,
        }


@pytest.mark.long
def test_replay_keeps_the_given_speed(bench: Bench) -> None:
    """10 s of records at fivefold speed.  test_replay_pacing.py has more."""
    create_topic(bench.bootstrap, bench.topic, 3)
    produce(bench.bootstrap, bench.topic, paced_rows(100, 3, step_ms=100))
    bench.archive()
    done = bench.replay(speed=5.0)
    assert done.records == 100
    assert done.duration_s >= 9.9 / 5.0
    assert bare(topic_rows(bench.bootstrap, bench.target)) == bare(bench.rows())


@pytest.mark.long
def test_stopped_replay_continues(bench: Bench) -> None:
    create_topic(bench.bootstrap, bench.topic, 2)
    # A quarter of an hour of records: it is stopped on its way, also where its tasks are slow.
    produce(bench.bootstrap, bench.topic, paced_rows(5000, 2, step_ms=200))
    bench.archive()
    stop = threading.Event()
    lags: list[int] = []

    def on_step(step: Any) -> None:  # noqa: ANN401 - a Step
        lags.append(step.lag)
        if step.lag < 4990:
            stop.set()

    done = pipeline.replay(bench.spark, bench.options(speed=1.0), on_step, stop=stop)
    assert done.stopped
    assert lags == sorted(lags, reverse=True)
    rest = bench.replay()
    assert 0 < done.records <= rest.there < 5000
    assert rest.records == 5000 - rest.there
    assert bare(topic_rows(bench.bootstrap, bench.target)) == bare(bench.rows())
