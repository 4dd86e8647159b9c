"""A streaming query is followed to its end or stop, and every batch is reported once."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kwire import pipeline
from kwire.pipeline.errors import QueryFailed
from kwire.pipeline.listening import Step
from kwire.testing import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 100
A_BATCH = 30


@pytest.fixture
def stream(spark: SparkSession, shared_broker: BrokerProcess, unique: str) -> DataFrame:
    """A topic's records, 30 of a hundred in a batch."""
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(unique, str(number))
    producer.flush()
    kafka = pipeline.Kafka(shared_broker.bootstrap)
    topics = pipeline.Topics((unique,))
    return pipeline.read_stream(spark, kafka, topics, maxOffsetsPerTrigger=A_BATCH)


def started(stream: DataFrame, path: Path, *, once: bool = True) -> StreamingQuery:
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(path))
    return (writer.trigger(availableNow=True) if once else writer).start()


def test_every_batch_of_a_query_is_reported_once(stream: DataFrame, tmp_path: Path) -> None:
    steps: list[Step] = []
    ended = pipeline.follow(started(stream, tmp_path), steps.append)
    assert [step.batch for step in steps] == list(range(len(steps)))
    assert sum(step.records for step in steps) == ended.records == RECORDS
    assert ended.steps == len(steps) == -(-RECORDS // A_BATCH)
    assert [step.lag for step in steps] == [70, 40, 10, 0]
    assert not ended.stopped


def test_ctrl_c_stops_a_continuous_query_and_its_checkpoint_continues(
    stream: DataFrame, tmp_path: Path
) -> None:
    steps: list[Step] = []

    def on_step(step: Step) -> None:
        steps.append(step)
        if len(steps) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    ended = pipeline.follow(started(stream, tmp_path, once=False), on_step)
    assert ended.stopped
    assert signal.getsignal(signal.SIGINT) is before
    rest = pipeline.follow(started(stream, tmp_path))
    assert ended.records + rest.records == RECORDS
    assert steps[0].records == A_BATCH


def test_event_of_the_caller_stops_a_query(stream: DataFrame, tmp_path: Path) -> None:
    stop = threading.Event()
    query = started(stream, tmp_path, once=False)
    ended = pipeline.follow(query, lambda step: stop.set(), stop=stop)
    assert ended.stopped
    assert not query.isActive


def test_failed_query_raises_its_cause_in_one_line(stream: DataFrame, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    failing = stream.select(f.raise_error(f.lit("this row is wrong")))
    with pytest.raises(QueryFailed, match="this row is wrong") as raised:
        pipeline.follow(started(failing, tmp_path))
    assert "\n" not in str(raised.value)
