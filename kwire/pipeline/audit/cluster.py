"""Topics of a cluster, described with the Kafka client that Spark uses.

The client runs in Spark's Java process.  So all of `Kafka.properties`, such as TLS and SASL, works
as in Spark's source.
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
"""How long to wait for a record that exists."""

TIMEOUTS = {"default.api.timeout.ms": "30000", "request.timeout.ms": "20000"}


@dataclass(frozen=True)
class AuditedRange:
    """The offsets of one partition that are read: from `start` up to `end`, which is excluded.

    log_start, last_stable, high_watermark    The partition's offsets when the audit began.
    """

    partition: int
    start: int
    end: int
    log_start: int
    last_stable: int
    high_watermark: int


@dataclass(frozen=True)
class AuditedTopic:
    """A topic as its cluster describes it."""

    name: str
    ranges: tuple[AuditedRange, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        """Whether cleanup.policy has `compact`."""
        return "compact" in self.policies

    @property
    def policies(self) -> set[str]:
        """The values of cleanup.policy."""
        return {policy.strip() for policy in self.configs.get("cleanup.policy", "").split(",")}

    def number(self, config: str, default: int) -> int:
        """The value of an integer config."""
        return int(self.configs.get(config, default))

    @property
    def starting(self) -> dict[str, dict[int, int]]:
        """The first offsets to read, in the form that `read` takes."""
        return {self.name: {r.partition: r.start for r in self.ranges}}

    @property
    def ending(self) -> dict[str, dict[int, int]]:
        """The end offsets, in the form that `read` takes."""
        return {self.name: {r.partition: r.end for r in self.ranges}}


class AuditedCluster:
    """Describes the topics of one cluster with Kafka's admin client."""

    def __init__(self, spark: SparkSession, kafka: Kafka) -> None:
        """Creates a client of Kafka in Spark's Java process."""
        jvm: Any = _jvm(spark)
        self._jvm = jvm
        self._package = jvm.org.apache.kafka.clients.admin
        self._properties = _properties(self._jvm, kafka)
        self._admin = self._package.AdminClient.create(self._properties)

    def close(self) -> None:
        """Close its connections."""
        self._admin.close()

    def names(self, topics: Topics) -> list[str]:
        """The names of the selected topics, by the rules of Spark's source."""
        if topics.pattern is None:
            return list(topics.names)
        names = self._admin.listTopics().names().get()
        matches = self._jvm.java.util.regex.Pattern.matches
        return sorted(name for name in names if matches(topics.pattern, name))

    def describe(
        self, name: str, since_ms: int | None = None, until_ms: int | None = None
    ) -> AuditedTopic:
        """The partitions, offsets and configs of a topic.

        The range of a partition ends at its last stable offset, where read_committed ends too.
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
            AuditedRange(p, min(starts[p], ends[p]), ends[p], begins[p], stable[p], high[p])
            for p in partitions
        )
        return AuditedTopic(name, ranges, self._configs(name))

    def log_starts(self, topic: AuditedTopic) -> dict[int, int]:
        """The present log start offsets of a topic."""
        partitions = [r.partition for r in topic.ranges]
        return self._offsets(topic.name, partitions, self._package.OffsetSpec.earliest())

    def _at(
        self, name: str, partitions: Sequence[int], timestamp_ms: int, ends: Mapping[int, int]
    ) -> dict[int, int]:
        """The first offset of each partition at or after a time, or the end if there is none."""
        spec = self._package.OffsetSpec.forTimestamp(timestamp_ms)
        first = self._offsets(name, partitions, spec)
        return {p: min(ends[p], offset) if offset >= 0 else ends[p] for p, offset in first.items()}

    def _offsets(
        self,
        name: str,
        partitions: Sequence[int],
        spec: Any,  # noqa: ANN401 - Kafka's OffsetSpec
        *,
        committed: bool = False,
    ) -> dict[int, int]:
        """Return an offset of each partition that `spec` selects (earliest, latest or of a time).
        With `committed`, the latest offset is the last stable offset, else the high watermark."""
        specs = self._jvm.java.util.HashMap()
        keys = {p: self._jvm.org.apache.kafka.common.TopicPartition(name, p) for p in partitions}
        for key in keys.values():
            specs.put(key, spec)
        levels = self._jvm.org.apache.kafka.common.IsolationLevel
        level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        options = self._package.ListOffsetsOptions(level)
        results = self._admin.listOffsets(specs, options).all().get()
        return {p: results.get(key).offset() for p, key in keys.items()}

    def _configs(self, name: str) -> dict[str, str]:
        """Return the configs of a topic that have a value, by name."""
        config = self._jvm.org.apache.kafka.common.config.ConfigResource
        topic = getattr(config, "Type").TOPIC  # noqa: B009 - `.Type` would be a Java package
        resource = config(topic, name)
        described = self._admin.describeConfigs(self._jvm.java.util.List.of(resource)).all().get()
        entries = described.get(resource).entries().toArray()
        return {e.name(): e.value() for e in entries if e.value() is not None}


def _jvm(spark: SparkSession) -> Any:  # noqa: ANN401 - py4j's view of Java
    """Return py4j's view of Spark's Java process.  Raises PipelineError for a session without one
    (Spark Connect)."""
    jvm: Any = spark._jvm
    if jvm is None:
        raise PipelineError(
            "an audit needs Spark's driver to describe the cluster, and this session has none"
        )
    return jvm


def _properties(jvm: Any, kafka: Kafka) -> Any:  # noqa: ANN401 - Java objects
    """Return the client's properties as a Java map."""
    properties = jvm.java.util.HashMap()
    settings = TIMEOUTS | dict(kafka.properties) | {"bootstrap.servers": kafka.bootstrap}
    for name, value in settings.items():
        properties.put(name, value)
    return properties


@contextmanager
def asking(spark: SparkSession, kafka: Kafka) -> Iterator[AuditedCluster]:
    """An AuditedCluster, closed at the end.  Java's errors become a PipelineError of one line."""
    with _java_errors(kafka):
        admin = AuditedCluster(spark, kafka)
        try:
            yield admin
        finally:
            admin.close()


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turns Spark's errors into a PipelineError of one line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        sentence = sentence_of(error)
        raise PipelineError(EXPLAINED.get(sentence, sentence)) from error


EXPLAINED = {
    "ArithmeticException: long overflow": "Spark's source cannot read a record whose timestamp is "
    "after the year 294246: is it in nanoseconds instead of milliseconds?"
}
"""Plain sentences for obscure errors of Spark."""


@contextmanager
def _java_errors(kafka: Kafka) -> Iterator[None]:
    """Turns Java's errors into a PipelineError with the message of the innermost cause."""
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
class ShownRecord:
    """A record that was fetched as an example."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def look_up(
    spark: SparkSession, kafka: Kafka, topic: str, places: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], ShownRecord]:
    """The records at these (partition, offset) pairs; records that no longer exist are left out.

    Each record takes one fetch, so this is for a few examples.
    """
    jvm = _jvm(spark)
    properties = _properties(jvm, kafka)
    for name, value in _LOOK_UP.items():
        properties.put(name, value)
    records: dict[tuple[int, int], ShownRecord] = {}
    with _java_errors(kafka):
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
        try:
            for partition, offset in places:
                place = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
                consumer.assign(jvm.java.util.List.of(place))
                consumer.seek(place, offset)
                polled = consumer.poll(jvm.java.time.Duration.ofMillis(POLL_MS))
                for record in polled.records(place):
                    if record.offset() == offset:
                        records[partition, offset] = _shown_record(record)
        finally:
            consumer.close()
    return records


_LOOK_UP = {
    "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "max.poll.records": "1",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",  # for a missing record it returns another one, to be dropped
}


def _shown_record(record: Any) -> ShownRecord:  # noqa: ANN401 - a Java ConsumerRecord
    """Copies the fields of a Java ConsumerRecord, so that it can be used without Java."""
    return ShownRecord(
        record.offset(),
        record.timestamp(),
        _bytes(record.key()),
        _bytes(record.value()),
        tuple((header.key(), _bytes(header.value())) for header in record.headers().toArray()),
    )


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
