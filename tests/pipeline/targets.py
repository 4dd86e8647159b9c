"""Rows as Spark's source gives them, and a topic that they go to, as a consumer reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.pipeline import exactly_once, transactional
from kwire.pipeline.exactly_once import Bounds, ExactlyOnceWriter, PartitionResult, WritePlan
from kwire.pipeline.positions import MapRecord, Run
from tests.pipeline.markers import wait_for_markers

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
SCHEMA = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp", pyarrow.timestamp("us", tz="UTC")),
        ("headers", HEADERS),
    ]
)
"""Of Spark's Kafka source."""

on_both = pytest.mark.parametrize(
    "target", ["kwire", pytest.param("apache", marks=pytest.mark.java)], indirect=True
)
"""A test of what the coordinator of transactions decides, on either broker for every change."""

PATIENCE_S = 180.0
SMALL = Bounds(records=10, patience_s=PATIENCE_S)
WHOLE = Bounds(patience_s=PATIENCE_S)
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Record:
    """The fields that must be equal on both sides."""

    key: bytes | None = None
    value: bytes | None = b"value"
    timestamp_ms: int = 1_700_000_000_000
    headers: Headers | None = None


def set_clock(monkeypatch: pytest.MonkeyPatch, now_s: Callable[[], float]) -> None:
    """Let the writer and its clients read this clock."""
    for module in (exactly_once, transactional):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=now_s, sleep=time.sleep))


def numbered(count: int) -> list[Record]:
    return [Record(b"%d" % (n % 7), b"value %d" % n, 1_700_000_000_000 + n) for n in range(count)]


def structs(headers: Headers | None) -> list[dict[str, object]] | None:
    return headers and [{"key": key, "value": value} for key, value in headers]  # type: ignore[return-value]  # None, or []


def batch(
    topic: str, partition: int, offsets: Iterable[int], rows: list[Record]
) -> pyarrow.RecordBatch:
    """Rows of the source, where each offset is an index into `rows`."""
    columns = [
        {
            "key": rows[offset].key,
            "value": rows[offset].value,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": EPOCH + timedelta(milliseconds=rows[offset].timestamp_ms),
            "headers": structs(rows[offset].headers),
        }
        for offset in offsets
    ]
    return pyarrow.RecordBatch.from_pylist(columns, SCHEMA)


@dataclass(frozen=True)
class Target:
    """A topic of the cluster under test, and the map topic beside it."""

    bootstrap: str
    topic: str

    @property
    def map_topic(self) -> str:
        return f"{self.topic}-map"

    def writer(self, bounds: Bounds = SMALL, *, mapped: bool = False) -> ExactlyOnceWriter:
        client = {"bootstrap.servers": self.bootstrap}
        topic = self.map_topic if mapped else None
        return ExactlyOnceWriter(client, f"test-{self.topic}", bounds=bounds, map_topic=topic)

    def write(
        self,
        rows: list[Record],
        offsets: Iterable[int] | None = None,
        *,
        bounds: Bounds = SMALL,
        mapped: bool = False,
    ) -> PartitionResult:
        """Write the rows, or those of some offsets, to partition 0, ten in an Arrow batch."""
        chosen = list(range(len(rows)) if offsets is None else offsets)
        batches = [
            batch(self.topic, 0, chosen[start : start + 10], rows)
            for start in range(0, len(chosen), 10)
        ]
        (written,) = self.writer(bounds, mapped=mapped).write(batches, WritePlan())
        return written

    def messages(
        self, topic: str = "", partition: int = 0, *, is_open: bool = False
    ) -> list[Message]:
        """What a consumer of its own reads, read_committed, up to the end.

        `is_open` says that a transaction is left open, whose end is not to be waited for.
        """
        if not is_open:
            wait_for_markers(self.bootstrap, TopicPartition(topic or self.topic, partition))
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic or self.topic, partition, 0)])
        found = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "no answer"
            if message.error() is not None:
                break
            found.append(message)
        consumer.close()
        return found

    def records(self, partition: int = 0, *, is_open: bool = False) -> list[Record]:
        """The target's records."""
        return [
            Record(found.key(), found.value(), found.timestamp()[1], found.headers() or None)  # type: ignore[arg-type]  # bytes
            for found in self.messages(partition=partition, is_open=is_open)
        ]

    def runs(self) -> list[Run]:
        """The map of partition 0, in the order of the source."""
        runs: list[Run] = []
        for message in self.messages(self.map_topic):
            record = MapRecord.decode(message.key(), message.value())  # type: ignore[arg-type]  # bytes
            assert (record.topic, record.partition) == (self.topic, 0)
            runs += record.runs
        return runs


def create(target: Target, *topics: NewTopic) -> None:
    """Make topics that keep records of any age."""
    for topic in topics:
        topic.config = {**(topic.config or {}), "retention.ms": "-1"}
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    for made in admin.create_topics(list(topics)).values():
        made.result(PATIENCE_S)
