"""Runs an audit: describes the topics, computes the figures, and makes the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.pipeline.audit import batches as log
from kwire.pipeline.audit import figures, repeats, scan
from kwire.pipeline.audit.audit_settings import Audit
from kwire.pipeline.audit.cluster import AuditedRange, AuditedTopic, asking, spark_errors
from kwire.pipeline.audit.judging import judge
from kwire.pipeline.audit.report import (
    Batches,
    Duplicates,
    Gap,
    Keys,
    PartitionFigures,
    Report,
    TopicReport,
)
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.source import Kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFIGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "segment.ms",
    "max.message.bytes",
    "compression.type",
    "message.timestamp.type",
    "min.insync.replicas",
)
"""The configs of a topic that a report shows."""


OnStage = Callable[[str], None]


def audit(
    spark: SparkSession, kafka: Kafka, options: Audit, on_stage: OnStage = lambda stage: None
) -> Report:
    """Read topics once, and report their content and its faults.

    `on_stage` gets a short description of each stage.  Raises PipelineError if the cluster or Spark
    fails.
    """
    started, now_ms = time.monotonic(), time.time_ns() // 1_000_000
    topics = described(spark, kafka, options)
    offsets = sum(r.end - r.start for topic in topics for r in topic.ranges)
    on_stage(f"reading {offsets:,} offsets")
    with spark_errors():
        rows = scan.examined(spark, kafka, topics, options, now_ms).persist()
        try:
            figures_ = _Figures(spark, rows, options, on_stage)
        finally:
            rows.unpersist()
    with asking(spark, kafka) as admin:
        starts = {topic.name: admin.log_starts(topic) for topic in topics}
    on_stage("reading batches of the log")
    reports = [figures_.report(kafka, topic, starts[topic.name]) for topic in topics]
    findings = [finding for report in reports for finding in judge(report, options)]
    return Report(kafka.bootstrap, now_ms, time.monotonic() - started, reports, findings)


def examine(spark: SparkSession, kafka: Kafka, options: Audit) -> DataFrame:
    """The rows of an audit, one for each record: see `kwire.pipeline.audit.scan.examined`.

    It is an ordinary DataFrame for questions that a report does not answer.  The topics are read
    when it is used.
    """
    now_ms = time.time_ns() // 1_000_000
    return scan.examined(spark, kafka, described(spark, kafka, options), options, now_ms)


def described(spark: SparkSession, kafka: Kafka, options: Audit) -> list[AuditedTopic]:
    """The selected topics in their present state.  Raises PipelineError if there are none."""
    with asking(spark, kafka) as admin:
        names = admin.names(options.topics)
        topics = [admin.describe(name, options.since_ms, options.until_ms) for name in names]
    if not topics:
        raise PipelineError(f"no topic of {kafka.bootstrap} matches {options.topics}")
    return topics


class _Figures:
    """All figures that Spark computes for an audit, by topic."""

    def __init__(
        self, spark: SparkSession, rows: DataFrame, options: Audit, on_stage: OnStage
    ) -> None:
        """Runs the Spark jobs that compute the figures of all topics.  Calls `on_stage` with the
        name of each stage before its job."""
        self.options = options
        self.partitions = figures.by_partition(rows, options)
        on_stage("sizes and times")
        self.percentiles = figures.size_percentiles(rows)
        self.histogram = figures.size_histogram(rows)
        self.spans = figures.spans({t: f.values() for t, f in self.partitions.items()})
        self.over_time = figures.over_time(spark, rows, self.spans)
        self.headers = self._if_any("with_headers", lambda: figures.header_names(rows))
        self.gaps = self._if_any("gaps", lambda: figures.largest_gaps(rows, options.samples))
        self.examples = figures.examples(rows, options)
        on_stage("keys")
        self.keys = repeats.keys(rows, options.examples)
        on_stage("duplicates")
        self.duplicates = repeats.duplicates(rows, "digest", options.examples)
        self.identities: Mapping[str, Duplicates] = {}
        if options.identity:
            self.identities = repeats.duplicates(rows, "identity", options.examples)

    def _if_any(self, count: str, compute: Any) -> Any:  # noqa: ANN401 - any figure
        """The result of `compute` if any partition has this count, or else {}."""
        counts = (p[count] for figures in self.partitions.values() for p in figures.values())
        return compute() if any(counts) else {}

    def report(
        self, kafka: Kafka, topic: AuditedTopic, starts_now: Mapping[int, int]
    ) -> TopicReport:
        """The report of one topic."""
        name = topic.name
        counted = self.partitions.get(name, {})
        partitions = [_partition(r, counted.get(r.partition)) for r in topic.ranges]
        missing = _missing(partitions, self.gaps.get(name, ()), starts_now)
        span = self.spans.get(name)
        return TopicReport(
            name=name,
            configs={c: topic.configs[c] for c in CONFIGS if c in topic.configs},
            partitions=partitions,
            size_percentiles=self.percentiles.get(name, {}),
            size_histogram=self.histogram.get(name, ()),
            over_time=self.over_time.get(name, ()),
            bucket_ms=figures.bucket_ms(*span) if span else 0,
            headers=self.headers.get(name, ()),
            keys=self.keys.get(name, Keys()),
            duplicates=self.duplicates.get(name, Duplicates()),
            identities=self.identities.get(name, Duplicates()),
            largest_gaps=missing.gaps[: self.options.examples],
            batches=looked_into(kafka, topic, missing, starts_now, self.options),
            examples=self.examples.get(name, {}),
        )


def _partition(r: AuditedRange, counted: Mapping[str, Any] | None) -> PartitionFigures:
    """The figures of a partition.  Missing offsets after its last record count too."""
    empty = PartitionFigures(
        r.partition, r.start, r.end, r.log_start, r.last_stable, r.high_watermark
    )
    figures_ = replace(empty, **counted) if counted else empty
    last = r.start - 1 if figures_.last_offset is None else figures_.last_offset
    after = r.end - 1 - last
    return replace(figures_, missing=figures_.missing + after, gaps=figures_.gaps + (after > 0))


def _missing(
    partitions: Sequence[PartitionFigures], gaps: Sequence[Gap], starts_now: Mapping[int, int]
) -> log.Missing:
    """The offsets without a record, within the partitions and after their last record."""
    ends = [
        Gap(p.partition, p.start if p.last_offset is None else p.last_offset + 1, p.end)
        for p in partitions
    ]
    deleted = 0
    for p in partitions:
        first = p.end if p.first_offset is None else p.first_offset
        deleted += max(0, min(first, starts_now[p.partition]) - p.start)
    left = [Gap(g.partition, max(g.start, starts_now[g.partition]), g.end) for g in [*gaps, *ends]]
    remaining = sorted((gap for gap in left if gap.size > 0), key=lambda gap: -gap.size)
    return log.Missing(sum(p.missing for p in partitions), remaining, deleted)


def looked_into(
    kafka: Kafka,
    topic: AuditedTopic,
    missing: log.Missing,
    starts_now: Mapping[int, int],
    options: Audit,
) -> Batches:
    """The figures of the topic's batches, or the reason why there are none."""
    from kwire.client.errors import ClientError
    from kwire.codecs.batches import CorruptBatch

    why_not = "none"
    if options.batches != "none":
        try:
            return _fetched(kafka, topic, missing, starts_now, options)
        except (ClientError, CorruptBatch) as error:
            why_not = f"none: {error}"
    kinds = {log.UNKNOWN: missing.count - missing.deleted, log.DELETED: missing.deleted}
    return Batches(why_not, gap_kinds={kind: count for kind, count in kinds.items() if count})


def _fetched(
    kafka: Kafka,
    topic: AuditedTopic,
    missing: log.Missing,
    starts_now: Mapping[int, int],
    options: Audit,
) -> Batches:
    """Fetches batches of one topic with kwire's client: all of them or a sample, as
    `options.batches` says.  Starts at the present start offsets, since retention may have deleted
    records meanwhile."""
    from kwire.client.cluster import Cluster
    from kwire.client.security import ClientSecurity

    security = ClientSecurity(kafka.properties)
    ranges = [replace(r, start=max(r.start, starts_now[r.partition])) for r in topic.ranges]
    with Cluster(kafka.bootstrap, client_id="kwire-pipeline", security=security) as cluster:
        cluster.topic(topic.name)
        if options.batches == "all":
            return log.walked(cluster, topic.name, ranges, missing)
        return log.sampled(cluster, topic.name, ranges, missing, options.samples)
