"""Topics with one anomaly each, planted at a known place, and one without any."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kwire.client.partitioner import partition_for

RECORDS = 240
PARTITIONS = 2
STEP_MS = 1000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TAKES_ALL = {
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.before.max.ms": "9223372036854775807",
}
PLAIN = {"linger.ms": 50, "partitioner": "murmur2_random"}


@dataclass(frozen=True)
class Made:
    """A record to produce."""

    key: str | None
    value: str | None
    partition: int
    timestamp_ms: int
    headers: tuple[tuple[str, str], ...] = ()

    def header(self, name: str, value: str) -> Made:
        """The record with another value of a header."""
        headers = tuple((n, value if n == name else v) for n, v in self.headers)
        return replace(self, headers=headers)


def records(now_ms: int, count: int = RECORDS, partitions: int = PARTITIONS) -> list[Made]:
    """Correct records: partitions by the murmur2 hash of the key, increasing timestamps.

    Header `id` is unique, and header `seq` increases by one in each partition.
    """
    made = []
    for number in range(count):
        key = f"key-{number}"
        partition = partition_for(key.encode(), partitions)
        value = json.dumps({"number": number, "text": "x" * (number % 50)})
        headers = (("id", str(number)), ("seq", ""))
        timestamp_ms = now_ms - HOUR_MS + number * STEP_MS
        made.append(Made(key, value, partition, timestamp_ms, headers))
    return numbered(made)


def numbered(made: Iterable[Made]) -> list[Made]:
    """The records with their number in the partition as header `seq`."""
    counts: Counter[int] = Counter()
    found = []
    for record in made:
        counts[record.partition] += 1
        found.append(record.header("seq", str(counts[record.partition])))
    return found


@dataclass
class Planter:
    """Creates topics on a broker, whose names begin with a word unique to this run."""

    bootstrap: str
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    word: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def name(self, topic: str) -> str:
        return f"{self.word}-{topic}"

    def create(
        self, topic: str, partitions: int = PARTITIONS, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic; its full name."""
        name = self.name(topic)
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=dict(configs or {}))])
        made[name].result(120)
        return name

    def alter(self, topic: str, config: str, value: str) -> None:
        entry = ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.name(topic), incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(120)

    def end(self, topic: str, partition: int) -> int:
        """The end offset of a partition."""
        requested = {TopicPartition(self.name(topic), partition): OffsetSpec.latest()}
        [future] = self.admin.list_offsets(requested).values()
        return int(future.result(120).offset)

    def put(self, topic: str, made: list[Made], **settings: Any) -> None:  # noqa: ANN401 - librdkafka's
        """Produce records with a producer of these settings."""
        send(self.producer(**settings), self.name(topic), made)

    def producer(self, **settings: Any) -> Producer:  # noqa: ANN401 - librdkafka's
        return Producer({**PLAIN, "bootstrap.servers": self.bootstrap, **settings})


def send(producer: Producer, topic: str, made: Iterable[Made]) -> list[Message]:
    """Produce records, and check that each was acknowledged."""
    arrived: list[Message] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        arrived.append(message)

    for record in made:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            partition=record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
            on_delivery=delivered,
        )
    assert producer.flush(60) == 0
    return arrived


Plant = Callable[[Planter], None]
PLANTS: dict[str, Plant] = {}
"""By topic: what makes it."""


def plant(topic: str) -> Callable[[Plant], Plant]:
    def keep(function: Plant) -> Plant:
        PLANTS[topic] = function
        return function

    return keep


def at(made: list[Made], place: int, **changes: Any) -> list[Made]:  # noqa: ANN401 - of Made
    """The records with one of them changed."""
    return numbered(replace(r, **changes) if i == place else r for i, r in enumerate(made))


@plant("clean")
def clean(to: Planter) -> None:
    to.create("clean")
    to.put("clean", records(to.now_ms, count=1200))


@plant("negative")
def negative(to: Planter) -> None:
    to.create("negative", configs=TAKES_ALL)
    to.put("negative", at(records(to.now_ms), 100, timestamp_ms=-1))


@plant("future")
def future(to: Planter) -> None:
    to.create("future", configs=TAKES_ALL)
    to.put("future", at(records(to.now_ms), 100, timestamp_ms=to.now_ms + 10 * DAY_MS))


@plant("apart")
def apart(to: Planter) -> None:
    to.create("apart", configs=TAKES_ALL)
    to.put("apart", at(records(to.now_ms), 100, timestamp_ms=to.now_ms - 2 * DAY_MS))


@plant("old")
def old(to: Planter) -> None:
    """The old record shares a batch with a future one, so that retention does not delete it."""
    hour = {"retention.ms": str(HOUR_MS), "segment.ms": str(HOUR_MS)}
    to.create("old", 1, TAKES_ALL | hour)
    late, early = records(to.now_ms, 2, partitions=1)
    future = replace(early, timestamp_ms=to.now_ms + DAY_MS)
    late = replace(late, timestamp_ms=to.now_ms - 3 * HOUR_MS)
    to.put("old", numbered([future, late]))


@plant("back")
def back(to: Planter) -> None:
    to.create("back", 1)
    made = records(to.now_ms, partitions=1)
    to.put("back", at(made, 200, timestamp_ms=made[200].timestamp_ms - 150_000))


@plant("doubled")
def doubled(to: Planter) -> None:
    to.create("doubled")
    made = records(to.now_ms)
    to.put("doubled", [*made[:100], made[99], *made[100:]])


@plant("same-id")
def same_id(to: Planter) -> None:
    to.create("same-id")
    made = records(to.now_ms)
    made[100] = made[100].header("id", "50")
    to.put("same-id", made)


@plant("no-id")
def no_id(to: Planter) -> None:
    to.create("no-id")
    made = records(to.now_ms)
    seq = (("seq", dict(made[100].headers)["seq"]),)
    to.put("no-id", [*made[:100], replace(made[100], headers=seq), *made[101:]])


@plant("sequence")
def sequence(to: Planter) -> None:
    """In one partition 101 is missing, 150 is doubled, and 180 and 181 are swapped."""
    to.create("sequence", 1)
    made = records(to.now_ms, partitions=1)
    turned = [*made[:179], made[180], made[179], *made[181:]]
    again = [*turned[:149], turned[149], turned[149].header("id", "again"), *turned[150:]]
    to.put("sequence", [r for r in again if dict(r.headers)["seq"] != "101"])


@plant("scattered")
def scattered(to: Planter) -> None:
    to.create("scattered")
    made = records(to.now_ms)
    to.put("scattered", at(made, 100, key=made[99].key, partition=1 - made[99].partition))


@plant("misplaced")
def misplaced(to: Planter) -> None:
    to.create("misplaced")
    made = records(to.now_ms)
    to.put("misplaced", at(made, 100, partition=1 - made[100].partition))


@plant("skewed")
def skewed(to: Planter) -> None:
    """Half of the records have one key."""
    to.create("skewed", 4)
    made = records(to.now_ms, count=1200, partitions=4)
    hot = made[0]
    for place in range(1, len(made), 2):
        made[place] = replace(made[place], key=hot.key, partition=hot.partition)
    to.put("skewed", numbered(made))


@plant("null-key")
def null_key(to: Planter) -> None:
    to.create("null-key")
    to.put("null-key", at(records(to.now_ms), 100, key=None))


@plant("tombstone")
def tombstone(to: Planter) -> None:
    to.create("tombstone")
    to.put("tombstone", at(records(to.now_ms), 100, value=None))


@plant("table")
def table(to: Planter) -> None:
    """Tombstones belong on a compacted topic."""
    to.create("table", configs={"cleanup.policy": "compact"})
    to.put("table", at(records(to.now_ms), 100, value=None))


@plant("large")
def large(to: Planter) -> None:
    to.create("large", configs={"max.message.bytes": "10000"})
    to.put("large", at(records(to.now_ms), 100, value="x" * 9500), **{"batch.size": 9900})


@plant("codecs")
def codecs(to: Planter) -> None:
    to.create("codecs")
    made = records(to.now_ms)
    to.put("codecs", made[:100], **{"compression.type": "zstd"})
    to.put("codecs", made[100:])


@plant("small-batches")
def small_batches(to: Planter) -> None:
    to.create("small-batches")
    to.put("small-batches", records(to.now_ms), **{"batch.num.messages": 1})


@plant("two-clocks")
def two_clocks(to: Planter) -> None:
    """The timestamp type is altered, which the broker applies a moment later."""
    to.create("two-clocks", 1)
    made = records(to.now_ms, 10 * RECORDS, partitions=1)
    producer = to.producer()
    send(producer, to.name("two-clocks"), made[:RECORDS])
    to.alter("two-clocks", "message.timestamp.type", "LogAppendTime")
    for record in made[RECORDS:]:
        [arrived] = send(producer, to.name("two-clocks"), [record])
        if arrived.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME:
            return
    raise AssertionError("the broker goes by the clock of producers still")


def in_transactions(to: Planter, topic: str, ends: Sequence[str], count: int = RECORDS) -> None:
    """Send the records in one transaction for each of `ends`.

    The records of an aborted transaction are sent again; `open` leaves a transaction open.
    """
    producer = to.producer(
        **{"transactional.id": to.name(topic), "transaction.timeout.ms": 900_000}
    )
    producer.init_transactions(30)
    made = records(to.now_ms, count)
    share = len(made) // len(ends)
    for number, end in enumerate(ends):
        part = made[number * share : (number + 1) * share]
        if end == "abort":
            producer.begin_transaction()
            send(producer, to.name(topic), part)
            producer.abort_transaction(30)
        producer.begin_transaction()
        send(producer, to.name(topic), part)
        if end != "open":
            producer.commit_transaction(30)


@plant("transactions")
def transactions(to: Planter) -> None:
    """Markers and an aborted transaction leave gaps that are explained."""
    to.create("transactions")
    in_transactions(to, "transactions", ["commit", "abort", "commit", "commit"])


@plant("open")
def open_transaction(to: Planter) -> None:
    """Committed readers do not get what comes after the first record of an open transaction."""
    to.create("open")
    in_transactions(to, "open", ["commit", "commit", "open"])
