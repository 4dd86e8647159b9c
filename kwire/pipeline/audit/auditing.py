"""An audit from its topics to its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.pipeline.audit import batches as log
from kwire.pipeline.audit import figures, repeats, scan
from kwire.pipeline.audit.audit_settings import Audit
from kwire.pipeline.audit.cluster import Range, Topic, asking, spark_told
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
"""Settings of a topic that a report shows."""


Told = Callable[[str], None]


def audit(
    spark: SparkSession, kafka: Kafka, asked: Audit, told: Told = lambda stage: None
) -> Report:
    """Read topics once, and say what is in them and what is wrong with it.

    `told` is called with what is done next, in a few words.
    Raises PipelineError where the cluster or Spark does not do what is asked.
    """
    started, now_ms = time.monotonic(), time.time_ns() // 1_000_000
    topics = described(spark, kafka, asked)
    offsets = sum(r.end - r.start for topic in topics for r in topic.ranges)
    told(f"reading {offsets:,} offsets")
    with spark_told():
        rows = scan.examined(spark, kafka, topics, asked, now_ms).persist()
        try:
            found = _Figures(spark, rows, asked, told)
        finally:
            rows.unpersist()
    with asking(spark, kafka) as admin:
        starts = {topic.name: admin.log_starts(topic) for topic in topics}
    told("looking into the log")
    reports = [found.report(kafka, topic, starts[topic.name]) for topic in topics]
    findings = [finding for report in reports for finding in judge(report, asked)]
    return Report(kafka.bootstrap, now_ms, time.monotonic() - started, reports, findings)


def examine(spark: SparkSession, kafka: Kafka, asked: Audit) -> DataFrame:
    """The records that an audit is made of, a row each: see `kwire.pipeline.audit.scan.examined`.

    For questions that a report does not answer: it is an ordinary DataFrame, read when it is used.
    """
    now_ms = time.time_ns() // 1_000_000
    return scan.examined(spark, kafka, described(spark, kafka, asked), asked, now_ms)


def described(spark: SparkSession, kafka: Kafka, asked: Audit) -> list[Topic]:
    """The topics that are asked for, as they are now."""
    with asking(spark, kafka) as admin:
        names = admin.names(asked.topics)
        topics = [admin.describe(name, asked.since_ms, asked.until_ms) for name in names]
    if not topics:
        raise PipelineError(f"no topic of {kafka.bootstrap} matches {asked.topics}")
    return topics


class _Figures:
    """All that Spark computes for an audit, by topic."""

    def __init__(self, spark: SparkSession, rows: DataFrame, asked: Audit, told: Told) -> None:
        self.asked = asked
        self.partitions = figures.by_partition(rows, asked)
        told("sizes and times")
        self.percentiles = figures.size_percentiles(rows)
        self.histogram = figures.size_histogram(rows)
        self.spans = figures.spans({t: f.values() for t, f in self.partitions.items()})
        self.over_time = figures.over_time(spark, rows, self.spans)
        self.headers = self._if_any("with_headers", lambda: figures.header_names(rows))
        self.gaps = self._if_any("gaps", lambda: figures.largest_gaps(rows, asked.samples))
        self.examples = figures.examples(rows, asked)
        told("keys")
        self.keys = repeats.keys(rows, asked.examples)
        told("duplicates")
        self.duplicates = repeats.duplicates(rows, "digest", asked.examples)
        self.identities: Mapping[str, Duplicates] = {}
        if asked.identity:
            self.identities = repeats.duplicates(rows, "identity", asked.examples)

    def _if_any(self, count: str, ask: Any) -> Any:  # noqa: ANN401 - any figure
        """Ask for details where a count says that there are some."""
        counts = (p[count] for figures in self.partitions.values() for p in figures.values())
        return ask() if any(counts) else {}

    def report(self, kafka: Kafka, topic: Topic, starts_now: Mapping[int, int]) -> TopicReport:
        """Of one topic."""
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
            largest_gaps=missing.gaps[: self.asked.examples],
            batches=looked_into(kafka, topic, missing, starts_now, self.asked),
            examples=self.examples.get(name, {}),
        )


def _partition(r: Range, counted: Mapping[str, Any] | None) -> PartitionFigures:
    """The figures of a partition; what is missing behind its last record counts too."""
    where = PartitionFigures(
        r.partition, r.start, r.end, r.log_start, r.last_stable, r.high_watermark
    )
    found = replace(where, **counted) if counted else where
    last = r.start - 1 if found.last_offset is None else found.last_offset
    behind = r.end - 1 - last
    return replace(found, missing=found.missing + behind, gaps=found.gaps + (behind > 0))


def _missing(
    partitions: Sequence[PartitionFigures], gaps: Sequence[Gap], starts_now: Mapping[int, int]
) -> log.Missing:
    """The offsets without a record: within the partitions, and behind their last one."""
    ends = [
        Gap(p.partition, p.start if p.last_offset is None else p.last_offset + 1, p.end)
        for p in partitions
    ]
    deleted = 0
    for p in partitions:
        first = p.end if p.first_offset is None else p.first_offset
        deleted += max(0, min(first, starts_now[p.partition]) - p.start)
    left = [Gap(g.partition, max(g.start, starts_now[g.partition]), g.end) for g in [*gaps, *ends]]
    there = sorted((gap for gap in left if gap.size > 0), key=lambda gap: -gap.size)
    return log.Missing(sum(p.missing for p in partitions), there, deleted)


def looked_into(
    kafka: Kafka, topic: Topic, missing: log.Missing, starts_now: Mapping[int, int], asked: Audit
) -> Batches:
    """What the log itself shows, as far as it is asked for and can be fetched."""
    from kwire.client.errors import ClientError
    from kwire.codecs.batches import CorruptBatch

    why_not = "none"
    if asked.batches != "none":
        try:
            return _fetched(kafka, topic, missing, starts_now, asked)
        except (ClientError, CorruptBatch) as error:
            why_not = f"none: {error}"
    kinds = {log.UNKNOWN: missing.count - missing.deleted, log.DELETED: missing.deleted}
    return Batches(why_not, gap_kinds={kind: count for kind, count in kinds.items() if count})


def _fetched(
    kafka: Kafka, topic: Topic, missing: log.Missing, starts_now: Mapping[int, int], asked: Audit
) -> Batches:
    from kwire.client.cluster import Cluster
    from kwire.client.security import ClientSecurity

    security = ClientSecurity(kafka.properties)
    ranges = [replace(r, start=max(r.start, starts_now[r.partition])) for r in topic.ranges]
    with Cluster(kafka.bootstrap, client_id="kwire-pipeline", security=security) as cluster:
        cluster.topic(topic.name)
        if asked.batches == "all":
            return log.walked(cluster, topic.name, ranges, missing)
        return log.sampled(cluster, topic.name, ranges, missing, asked.samples)
