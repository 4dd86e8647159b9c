"""Spark's sink as a batch and as a stream; other clients read the topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.connector.cluster import Cluster
from tests.spark.connector.reading import TIMEOUT_S, Kafka, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COLUMNS = (
    "topic string, partition int, key binary, value binary,"
    " headers array<struct<key string, value binary>>"
)


def numbers(kafka: Kafka, count: int) -> DataFrame:
    return kafka.spark.range(count).selectExpr("cast(id as string) as value")


def test_topic_partition_key_and_headers(kafka: Kafka, cluster: Cluster, unique: str) -> None:
    one, other = cluster.create(f"{unique}-a", 3), cluster.create(f"{unique}-b", 2)
    rows = [
        (one, 2, b"k", b"1", [("h", b"x"), ("h", b""), ("none", None)]),
        (one, 0, None, b"2", None),
        (other, 1, b"tombstone", None, None),
    ]
    kafka.write(kafka.spark.createDataFrame(rows, COLUMNS), {"includeHeaders": True})
    found = [message for topic in (one, other) for message in cluster.messages(topic)]
    assert [(m.topic(), m.partition(), m.key(), m.value(), m.headers()) for m in found] == [
        (one, 0, None, b"2", None),
        (one, 2, b"k", b"1", [("h", b"x"), ("h", b""), ("none", None)]),
        (other, 1, b"tombstone", None, None),
    ]


def test_topic_option_overrides_the_topic_column(
    kafka: Kafka, cluster: Cluster, unique: str
) -> None:
    topic = cluster.create(unique)
    rows = kafka.spark.createDataFrame([("elsewhere", b"1")], "topic string, value binary")
    kafka.write(rows, {"topic": topic})
    assert cluster.numbers(topic) == [1]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_rows_are_written_with_each_value_of_acks(
    kafka: Kafka, cluster: Cluster, unique: str, acks: str
) -> None:
    topic = cluster.create(unique, 2)
    kafka.write(
        numbers(kafka, 100),
        {"topic": topic, "kafka.acks": acks, "kafka.enable.idempotence": acks == "all"},
    )
    assert cluster.numbers(topic) == [*range(100)]


def test_write_creates_a_missing_topic(kafka: Kafka, cluster: Cluster, unique: str) -> None:
    kafka.write(numbers(kafka, 10), {"topic": unique})
    assert cluster.numbers(unique) == [*range(10)]


def test_record_that_is_too_large_fails_the_job(
    kafka: Kafka, cluster: Cluster, unique: str
) -> None:
    topic = cluster.create(unique, config={"max.message.bytes": "1000"})
    rows = kafka.spark.createDataFrame([(b"x" * 2000,)], "value binary")
    with pytest.raises(Exception, match="RecordTooLargeException"):
        kafka.write(rows, {"topic": topic})
    assert cluster.messages(topic) == []


def test_stream_continues_from_its_checkpoint(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """After the restart it writes only new records."""
    source, sink = cluster.create(f"{unique}-source", 2), cluster.create(f"{unique}-sink", 2)
    frame = kafka.stream({"subscribe": source, "includeHeaders": True, "maxOffsetsPerTrigger": 30})
    frame = frame.selectExpr(f"'{sink}' as topic", "key", "value", "headers", "partition")

    def copy() -> None:
        writer = frame.writeStream.format("kafka").option("checkpointLocation", str(tmp_path))
        writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S)

    for part in (range(50), range(50, 80)):
        cluster.produce(source, part, partition=part.start % 2, headers=[("a", b"1")])
        copy()
        assert cluster.numbers(sink) == [*range(part.stop)]
    before, after = cluster.messages(source), cluster.messages(sink)
    for one, other in zip(before, after, strict=True):
        assert (one.partition(), one.key(), one.value()) == (
            other.partition(),
            other.key(),
            other.value(),
        )
        assert one.headers() == other.headers() == [("a", b"1")]


@pytest.mark.parametrize("codec", CODECS)
def test_records_in_each_codec_are_read_by_both_clients(
    kafka: Kafka, cluster: Cluster, unique: str, codec: str
) -> None:
    """Spark and librdkafka read what the other one has compressed."""
    topic = cluster.create(unique, 2)
    cluster.produce(topic, range(500), settings={"compression.type": codec, "linger.ms": 50})
    kafka.write(
        numbers(kafka, 1000).where("value >= 500"),
        {"topic": topic, "kafka.compression.type": codec},
    )
    assert values(kafka.batch({"subscribe": topic}).collect()) == [*range(1000)]
    assert cluster.numbers(topic) == [*range(1000)]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_topics_codec_applies_to_records_of_all_clients(
    kafka: Kafka, cluster: Cluster, unique: str, codec: str
) -> None:
    """The broker compresses or recompresses all batches."""
    topic = cluster.create(unique, config={"compression.type": codec})
    kafka.write(numbers(kafka, 200), {"topic": topic})
    cluster.produce(topic, range(200, 400), settings={"compression.type": "gzip", "linger.ms": 50})
    assert values(kafka.batch({"subscribe": topic}).collect()) == [*range(400)]
