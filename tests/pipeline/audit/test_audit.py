"""An audit finds each planted fault and no other, on kwire and on Apache Kafka."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from kwire import pipeline
from kwire.pipeline import audit
from kwire.pipeline.audit import Audit, Field, Report, TopicReport
from tests.pipeline.audit import planted
from tests.pipeline.audit.planted import PLANTS, RECORDS, Made, Planter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's own
]

FOUND: dict[str, dict[str, int]] = {
    "clean": {},
    "table": {},
    "transactions": {},
    "negative": {"timestamp-negative": 1},
    "future": {"timestamp-future": 1},
    "apart": {"timestamp-apart": 1},
    "old": {"timestamp-future": 1, "timestamp-old": 1},
    "back": {"disorder": 1},
    "doubled": {"duplicate": 1, "duplicate-identity": 1, "sequence-repeated": 1},
    "same-id": {"duplicate-identity": 1},
    "no-id": {"no-identity": 1},
    "sequence": {"sequence-stepped": 1, "sequence-repeated": 1, "sequence-skipped": 3},
    "scattered": {"key-scattered": 1},
    "misplaced": {"key-misplaced": 1},
    "skewed": {"skew": 1, "hot-key": 601},
    "null-key": {"null-keys": 1},
    "tombstone": {"tombstone": 1},
    "large": {"large": 1},
    "codecs": {"codecs": 2},
    "small-batches": {"small-batches": RECORDS},
    "two-clocks": {"timestamp-types": 1},
    "open": {"open-transaction": RECORDS // 3},
}
"""What an audit finds in each planted topic: kinds with their counts, and nothing else."""


@dataclass
class Audited:
    """The planted topics of a broker, and the audit of all of them."""

    to: Planter
    report: Report

    def topic(self, name: str) -> TopicReport:
        return next(t for t in self.report.topics if t.name == self.to.name(name))

    def findings(self, name: str) -> list[audit.Finding]:
        return [f for f in self.report.findings if f.topic == self.to.name(name)]


@pytest.fixture(scope="module")
def audited(bootstrap: str, spark: SparkSession) -> Audited:
    """One audit of all topics, on kwire or on `--bootstrap`, which reads each topic once."""
    to = Planter(bootstrap)
    for make in PLANTS.values():
        make(to)
    options = Audit(
        pipeline.Topics(pattern=f"{to.word}-.*"),
        identity=Field.parse("header:id"),
        sequence=Field.parse("header:seq"),
    )
    return Audited(to, audit.audit(spark, pipeline.Kafka(to.bootstrap), options))


def test_every_planted_fault_has_an_expected_finding() -> None:
    assert set(PLANTS) == set(FOUND)


@pytest.mark.parametrize("topic", FOUND)
def test_audit_finds_the_planted_fault_and_no_other(audited: Audited, topic: str) -> None:
    assert {f.kind: f.count for f in audited.findings(topic)} == FOUND[topic]


@pytest.mark.parametrize(
    ("topic", "kind", "key"),
    [
        ("negative", "timestamp-negative", "key-100"),
        ("future", "timestamp-future", "key-100"),
        ("apart", "timestamp-apart", "key-100"),
        ("back", "disorder", "key-200"),
        ("doubled", "duplicate", "key-99"),
        ("same-id", "duplicate-identity", "key-50"),
        ("no-id", "no-identity", "key-100"),
        ("scattered", "key-scattered", "key-99"),
        ("misplaced", "key-misplaced", "key-100"),
        ("tombstone", "tombstone", "key-100"),
    ],
)
def test_finding_has_an_example_with_its_place(
    audited: Audited, topic: str, kind: str, key: str
) -> None:
    [finding] = [f for f in audited.findings(topic) if f.kind == kind]
    [example] = finding.examples
    assert example.key == key
    partition = audited.topic(topic).partitions[example.partition]
    assert partition.start <= example.offset < partition.end


def test_figures_of_a_topic_equal_those_of_the_produced_records(audited: Audited) -> None:
    topic, made = audited.topic("clean"), planted.records(audited.to.now_ms, count=1200)
    assert [p.records for p in topic.partitions] == [
        count for _, count in sorted(Counter(r.partition for r in made).items())
    ]
    sizes = sorted(size_of(record) for record in made)
    assert topic.sum("size_bytes") == sum(sizes)
    assert max(p.record_bytes_max for p in topic.partitions) == sizes[-1]
    assert topic.size_percentiles["p50"] == sizes[len(sizes) // 2 - 1]
    assert sum(count for _, count in topic.size_histogram) == len(made)
    assert min(p.first_ms or 0 for p in topic.partitions) == made[0].timestamp_ms
    assert max(p.last_ms or 0 for p in topic.partitions) == made[-1].timestamp_ms
    assert sum(count for _, count in topic.over_time) == len(made)
    assert dict(topic.headers) == {"id": 1200, "seq": 1200}
    assert (topic.keys.distinct, topic.keys.murmur2) == (1200, 1200)
    assert topic.keys.partitioner == "murmur2"
    assert topic.batches.records == len(made)


def size_of(record: Made) -> int:
    """The size of key, value and headers in bytes."""
    texts = [record.key or "", record.value or ""]
    texts += [text for header in record.headers for text in header]
    return sum(len(text.encode()) for text in texts)


def test_gaps_of_aborts_and_markers_are_counted_apart(audited: Audited) -> None:
    topic = audited.topic("transactions")
    kinds = topic.batches.gap_kinds
    assert kinds["aborted transactions"] == RECORDS // 4
    assert topic.sum("missing") == sum(kinds.values())
    assert set(kinds) == {"aborted transactions", "transaction markers"}


def test_page_has_every_topic_and_its_plots(audited: Audited) -> None:
    shown = [audited.topic(name) for name in ("clean", "old", "transactions")]
    page = audit.page(replace(audited.report, topics=shown))
    assert "src=" not in page
    assert page.count("<link") == 0
    for topic in shown:
        assert f">{topic.name}</h2>" in page
    plots = 4 * len(shown) - len(["old"])  # too short a span for a plot over time
    assert page.count("<svg") == plots


def test_audit_leaves_out_records_outside_of_the_time_range(
    spark: SparkSession, bootstrap: str
) -> None:
    to = Planter(bootstrap)
    planted.clean(to)
    made = planted.records(to.now_ms, count=1200)
    options = Audit(
        pipeline.Topics((to.name("clean"),)),
        since_ms=made[300].timestamp_ms,
        until_ms=made[700].timestamp_ms,
    )
    rows = audit.examine(spark, pipeline.Kafka(bootstrap), options).select("key").collect()
    assert {bytes(row["key"]).decode() for row in rows} == {r.key for r in made[300:700]}


def test_timestamp_that_spark_cannot_read_raises_pipeline_error(
    spark: SparkSession, bootstrap: str
) -> None:
    to = Planter(bootstrap)
    name = to.create("nanoseconds", 1, planted.TAKES_ALL)
    [made] = planted.records(to.now_ms, 1, partitions=1)
    to.put("nanoseconds", [replace(made, timestamp_ms=1_000_000 * to.now_ms)])
    with pytest.raises(pipeline.PipelineError, match="in nanoseconds"):
        audit.audit(spark, pipeline.Kafka(bootstrap), Audit(pipeline.Topics((name,))))


def test_missing_topic_raises_pipeline_error(
    spark: SparkSession, bootstrap: str, unique: str
) -> None:
    kafka = pipeline.Kafka(bootstrap)
    started = time.monotonic()
    with pytest.raises(pipeline.PipelineError, match="topic-partition") as raised:
        audit.audit(spark, kafka, Audit(pipeline.Topics((unique,))))
    assert "\n" not in str(raised.value)
    with pytest.raises(pipeline.PipelineError, match=f"no topic of .* matches {unique}"):
        audit.audit(spark, kafka, Audit(pipeline.Topics(pattern=unique)))
    assert time.monotonic() - started < 60
