"""What a cluster says of its topics, asked with the Kafka client that Spark itself uses.

It lives in Spark's Java process, so that TLS, SASL and all else in `Kafka.properties` works as for
Spark's source, with the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kwire.pipeline.errors import PipelineError, sentence_of
from kwire.pipeline.source import Kafka, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST = -2
LATEST = -1
POLL_MS = 10_000
"""How long a record that is known to be there is waited for."""

TIMEOUTS = {"default.api.timeout.ms": "30000", "request.timeout.ms": "20000"}


@dataclass(frozen=True)
class Range:
    """The offsets of one partition that are read: from `start` up to, without, `end`.

    log_start, last_stable, high_watermark    As the cluster said when the audit began.
    """

    partition: int
    start: int
    end: int
    log_start: int
    last_stable: int
    high_watermark: int


@dataclass(frozen=True)
class Topic:
    """A topic as its cluster describes it."""

    name: str
    ranges: tuple[Range, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        """Whether cleanup.policy lets records go because their key has a newer one."""
        return "compact" in self.policies

    @property
    def policies(self) -> set[str]:
        """Of cleanup.policy."""
        return {policy.strip() for policy in self.configs.get("cleanup.policy", "").split(",")}

    def number(self, config: str, default: int) -> int:
        """A setting that is a whole number."""
        return int(self.configs.get(config, default))

    @property
    def starting(self) -> dict[str, dict[int, int]]:
        """As `read` takes it."""
        return {self.name: {r.partition: r.start for r in self.ranges}}

    @property
    def ending(self) -> dict[str, dict[int, int]]:
        """As `read` takes it."""
        return {self.name: {r.partition: r.end for r in self.ranges}}


class ClusterAdmin:
    """Questions to one cluster, through Kafka's admin client."""

    def __init__(self, spark: SparkSession, kafka: Kafka) -> None:
        jvm: Any = _jvm(spark)
        self._jvm = jvm
        self._package = jvm.org.apache.kafka.clients.admin
        self._properties = _properties(self._jvm, kafka)
        self._admin = self._package.AdminClient.create(self._properties)

    def close(self) -> None:
        """Close its connections."""
        self._admin.close()

    def names(self, topics: Topics) -> list[str]:
        """The topics that are meant, as Spark's source would understand it."""
        if topics.pattern is None:
            return list(topics.names)
        known = self._admin.listTopics().names().get()
        matches = self._jvm.java.util.regex.Pattern.matches
        return sorted(name for name in known if matches(topics.pattern, name))

    def describe(
        self, name: str, since_ms: int | None = None, until_ms: int | None = None
    ) -> Topic:
        """Partitions, offsets and settings of a topic.

        The range of a partition ends at its last stable offset: what committed readers can get.
        """
        named = self._jvm.java.util.List.of(name)
        described = self._admin.describeTopics(named).allTopicNames().get()
        partitions = [info.partition() for info in described.get(name).partitions()]
        specs = self._package.OffsetSpec
        begins = self._offsets(name, partitions, specs.earliest())
        high = self._offsets(name, partitions, specs.latest())
        stable = self._offsets(name, partitions, specs.latest(), committed=True)
        starts, ends = begins, stable
        if since_ms is not None:
            starts = self._at(name, partitions, since_ms, stable)
        if until_ms is not None:
            ends = self._at(name, partitions, until_ms, stable)
        ranges = tuple(
            Range(p, min(starts[p], ends[p]), ends[p], begins[p], stable[p], high[p])
            for p in partitions
        )
        return Topic(name, ranges, self._configs(name))

    def log_starts(self, topic: Topic) -> dict[int, int]:
        """Where the partitions of a topic begin now."""
        partitions = [r.partition for r in topic.ranges]
        return self._offsets(topic.name, partitions, self._package.OffsetSpec.earliest())

    def _at(
        self, name: str, partitions: Sequence[int], timestamp_ms: int, ends: Mapping[int, int]
    ) -> dict[int, int]:
        """The first offset at or after a time; the end where there is none."""
        spec = self._package.OffsetSpec.forTimestamp(timestamp_ms)
        found = self._offsets(name, partitions, spec)
        return {p: min(ends[p], offset) if offset >= 0 else ends[p] for p, offset in found.items()}

    def _offsets(
        self,
        name: str,
        partitions: Sequence[int],
        spec: Any,  # noqa: ANN401 - Kafka's own OffsetSpec
        *,
        committed: bool = False,
    ) -> dict[int, int]:
        asked = self._jvm.java.util.HashMap()
        keys = {p: self._jvm.org.apache.kafka.common.TopicPartition(name, p) for p in partitions}
        for key in keys.values():
            asked.put(key, spec)
        levels = self._jvm.org.apache.kafka.common.IsolationLevel
        level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        options = self._package.ListOffsetsOptions(level)
        answers = self._admin.listOffsets(asked, options).all().get()
        return {p: answers.get(key).offset() for p, key in keys.items()}

    def _configs(self, name: str) -> dict[str, str]:
        config = self._jvm.org.apache.kafka.common.config.ConfigResource
        topic = getattr(config, "Type").TOPIC  # noqa: B009 - `.Type` would be a Java package
        resource = config(topic, name)
        described = self._admin.describeConfigs(self._jvm.java.util.List.of(resource)).all().get()
        entries = described.get(resource).entries().toArray()
        return {e.name(): e.value() for e in entries if e.value() is not None}


def _jvm(spark: SparkSession) -> Any:  # noqa: ANN401 - py4j's door to all of Java
    jvm: Any = spark._jvm
    if jvm is None:
        raise PipelineError(
            "an audit asks the cluster through Spark's driver: this session has none"
        )
    return jvm


def _properties(jvm: Any, kafka: Kafka) -> Any:  # noqa: ANN401 - Java's own objects
    made = jvm.java.util.HashMap()
    settings = TIMEOUTS | dict(kafka.properties) | {"bootstrap.servers": kafka.bootstrap}
    for name, value in settings.items():
        made.put(name, value)
    return made


@contextmanager
def asking(spark: SparkSession, kafka: Kafka) -> Iterator[ClusterAdmin]:
    """A ClusterAdmin, closed at the end; what Java raises becomes a PipelineError of one line."""
    with _told(kafka):
        admin = ClusterAdmin(spark, kafka)
        try:
            yield admin
        finally:
            admin.close()


@contextmanager
def spark_told() -> Iterator[None]:
    """What Spark raises becomes a PipelineError of one line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        sentence = sentence_of(error)
        raise PipelineError(EXPLAINED.get(sentence, sentence)) from error


EXPLAINED = {
    "ArithmeticException: long overflow": "Spark's source cannot read a record whose timestamp is "
    "after the year 294246: is it in nanoseconds, and not in milliseconds?"
}
"""What Spark says in words that help nobody."""


@contextmanager
def _told(kafka: Kafka) -> Iterator[None]:
    """What Java raises becomes a PipelineError with the innermost cause's own words."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        sentence = sentence_of(RuntimeError(cause.getMessage() or cause.toString()))
        raise PipelineError(f"{kafka.bootstrap}: {sentence}") from error


@dataclass(frozen=True)
class Seen:
    """A record that was looked up to be shown."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def look_up(
    spark: SparkSession, kafka: Kafka, topic: str, places: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Seen]:
    """The records at some (partition, offset), to be shown as examples; those that are gone lack.

    Each is a fetch of its own: it is meant for a handful.
    """
    jvm = _jvm(spark)
    properties = _properties(jvm, kafka)
    for name, value in _LOOK_UP.items():
        properties.put(name, value)
    found: dict[tuple[int, int], Seen] = {}
    with _told(kafka):
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
        try:
            for partition, offset in places:
                where = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
                consumer.assign(jvm.java.util.List.of(where))
                consumer.seek(where, offset)
                polled = consumer.poll(jvm.java.time.Duration.ofMillis(POLL_MS))
                for record in polled.records(where):
                    if record.offset() == offset:
                        found[partition, offset] = _seen(record)
        finally:
            consumer.close()
    return found


_LOOK_UP = {
    "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "max.poll.records": "1",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",  # a record that is gone gives another one, which is dropped
}


def _seen(record: Any) -> Seen:  # noqa: ANN401 - a Java ConsumerRecord
    return Seen(
        record.offset(),
        record.timestamp(),
        _bytes(record.key()),
        _bytes(record.value()),
        tuple((header.key(), _bytes(header.value())) for header in record.headers().toArray()),
    )


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
