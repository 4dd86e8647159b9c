"""Compares two topics and makes the report of their differences."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kwire.pipeline.audit import differences as spark_differences
from kwire.pipeline.audit.audit_settings import Compare, Side
from kwire.pipeline.audit.auditing import OnStage
from kwire.pipeline.audit.cluster import AuditedTopic, ShownRecord, asking, look_up, spark_errors
from kwire.pipeline.audit.differences import CHANGED, DOUBLED, EXTRA, KINDS, MISSING, ORDER
from kwire.pipeline.audit.report import (
    SEVERITIES,
    AuditDifference,
    Comparison,
    Example,
    Finding,
    PartitionDifferences,
)
from kwire.pipeline.audit.words import many, shown
from kwire.pipeline.source import Topics, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ERROR = SEVERITIES[-1]
ALL = -1
"""Stands for all partitions."""
AROUND = 12
"""How many bytes are shown from the first difference of two values on."""

WORDS = {
    MISSING: "missing on the right",
    EXTRA: "only on the right",
    DOUBLED: "repeated on the right",
    CHANGED: "changed on the right",
    ORDER: "earlier than the predecessor on the right",
}


@dataclass(frozen=True)
class _Half:
    """One side of the comparison, with its topic's offsets at the start."""

    side: Side
    topic: AuditedTopic

    @property
    def offsets(self) -> int:
        """The number of offsets to read."""
        return sum(r.end - r.start for r in self.topic.ranges)

    def rows(
        self, spark: SparkSession, options: Compare, only: Collection[int] | None = None
    ) -> DataFrame:
        """The records to compare, of all partitions or `only` of some, as `compared` gives them."""
        starting = self.topic.starting
        if only is not None:
            ends = self.topic.ending[self.topic.name]
            for partition in set(ends) - set(only):
                starting[self.topic.name][partition] = ends[partition]
        records = read(
            spark,
            self.side.kafka,
            Topics((self.topic.name,)),
            starting=starting,
            ending=self.topic.ending,
        )
        return spark_differences.compared(records, options.parts)


def described(spark: SparkSession, side: Side) -> _Half:
    """A side with the present state of its topic."""
    with asking(spark, side.kafka) as admin:
        return _Half(side, admin.describe(side.topic))


def differences(spark: SparkSession, options: Compare) -> DataFrame:
    """All differences as a DataFrame: see `kwire.pipeline.audit.differences.differences`."""
    left, right = described(spark, options.left), described(spark, options.right)
    return spark_differences.differences(
        left.rows(spark, options), right.rows(spark, options), by_partition=options.by_partition
    )


def compare(
    spark: SparkSession, options: Compare, on_stage: OnStage = lambda stage: None
) -> Comparison:
    """Compare two topics, record by record.

    It compares the records that exist at the start.  Each topic is read once; partitions that
    differ are read again for the details.  `on_stage` gets a description of each stage.
    Raises PipelineError if a cluster or Spark fails.
    """
    started, now_ms = time.monotonic(), time.time_ns() // 1_000_000
    left, right = described(spark, options.left), described(spark, options.right)
    with spark_errors():
        on_stage(f"reading {left.offsets:,} and {right.offsets:,} offsets")
        prints = [_fingerprints(half.rows(spark, options), options) for half in (left, right)]
        all_partitions = sorted({*prints[0], *prints[1]})
        differing = [p for p in all_partitions if prints[0].get(p) != prints[1].get(p)]
        counts: Mapping[int, Mapping[str, int]] = {}
        examples: list[AuditDifference] = []
        if differing:
            on_stage("looking for the differences")
            counts, examples = _details(spark, options, left, right, differing)
    sizes = [{p: print_[0] for p, print_ in side.items()} for side in prints]
    partitions = [
        PartitionDifferences(p, *(side.get(p, 0) for side in sizes), **counts.get(p, {}))
        for p in all_partitions
    ]
    return Comparison(
        left=str(options.left),
        right=str(options.right),
        made_at_ms=now_ms,
        duration_s=time.monotonic() - started,
        compared=options.parts,
        by_partition=options.by_partition,
        partitions=partitions,
        differences=examples,
        findings=[*_shape(options, left, right), *_findings(options, partitions, examples)],
    )


_Print = tuple[int, int, int]
"""The number of records, and two sums of their hashes."""


def _fingerprints(rows: DataFrame, options: Compare) -> dict[int, _Print]:
    """The fingerprint of each partition, or of ALL."""
    prints = spark_differences.fingerprints(rows, by_partition=options.by_partition).collect()
    return {row["partition"]: (row["records"], int(row["x"]), int(row["y"])) for row in prints}


def _details(
    spark: SparkSession, options: Compare, left: _Half, right: _Half, partitions: Sequence[int]
) -> tuple[dict[int, dict[str, int]], list[AuditDifference]]:
    """The count of each kind of difference in each partition, and examples of each kind."""
    from pyspark.sql import functions as f

    from kwire.pipeline.audit.figures import first_of_each

    only = partitions if options.by_partition else None
    rows_of_differences = spark_differences.differences(
        left.rows(spark, options, only),
        right.rows(spark, options, only),
        by_partition=options.by_partition,
    ).persist()
    try:
        where = f.coalesce("left_partition", "right_partition")
        place = (where if options.by_partition else f.lit(ALL)).alias("partition")
        counts: dict[int, dict[str, int]] = defaultdict(dict)
        for row in rows_of_differences.groupBy(place, "kind").count().collect():
            counts[row["partition"]][row["kind"]] = row["count"]
        order = where, f.coalesce("left_offset", "right_offset")
        rows = first_of_each(rows_of_differences, options.examples, *order, by=["kind"]).collect()
    finally:
        rows_of_differences.unpersist()
    return counts, _with_records(spark, left, right, rows)


def _with_records(
    spark: SparkSession, left: _Half, right: _Half, rows: Sequence[Row]
) -> list[AuditDifference]:
    """The differences with keys and details from their records, which are fetched one by one."""
    differences = [
        AuditDifference(
            row["kind"],
            _place(row["left_partition"], row["left_offset"]),
            _place(row["right_partition"], row["right_offset"]),
            None,
            tuple(row["parts"]),
            "",
        )
        for row in rows
    ]
    lefts = _records(spark, left, [d.left for d in differences])
    rights = _records(spark, right, [d.right for d in differences])
    return [_described(d, lefts, rights) for d in differences]


def _place(partition: int | None, offset: int | None) -> tuple[int, int] | None:
    return None if partition is None or offset is None else (partition, offset)


def _records(
    spark: SparkSession, half: _Half, places: Sequence[tuple[int, int] | None]
) -> dict[tuple[int, int], ShownRecord]:
    """Fetches the records at these places of one side; None stands for no record."""
    wanted = [place for place in places if place is not None]
    return look_up(spark, half.side.kafka, half.topic.name, wanted) if wanted else {}


def _described(
    difference: AuditDifference,
    lefts: Mapping[tuple[int, int], ShownRecord],
    rights: Mapping[tuple[int, int], ShownRecord],
) -> AuditDifference:
    """The difference with the key and the detail that its records give."""
    left = lefts.get(difference.left) if difference.left else None
    right = rights.get(difference.right) if difference.right else None
    either = left or right
    if either is None:
        return difference
    if difference.kind == CHANGED and left and right:
        detail = "; ".join(_changed(part, left, right) for part in difference.parts)
    else:
        detail = f"value {shown(either.value) or 'null'}"
    return replace(difference, key=shown(either.key), detail=detail)


def _changed(part: str, left: ShownRecord, right: ShownRecord) -> str:
    """How a part differs; for a key or value, from which byte on."""
    if part == "timestamp":
        return f"timestamp {left.timestamp_ms} became {right.timestamp_ms}"
    if part == "headers":
        return f"headers {_headers_text(left)} became {_headers_text(right)}"
    ours, theirs = getattr(left, part), getattr(right, part)
    if ours is None or theirs is None:
        return f"{part} {shown(ours) or 'null'} became {shown(theirs) or 'null'}"
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    ours, theirs = shown(ours[at : at + AROUND]), shown(theirs[at : at + AROUND])
    return f"{part} differs from byte {at} on: {ours!r} became {theirs!r}"


def _headers_text(record: ShownRecord) -> str:
    return ", ".join(f"{name}={shown(value, 20)}" for name, value in record.headers) or "(none)"


def _shape(options: Compare, left: _Half, right: _Half) -> list[Finding]:
    """A finding if topics that are compared by partition have different numbers of partitions."""
    ours, theirs = len(left.topic.ranges), len(right.topic.ranges)
    if not options.by_partition or ours == theirs:
        return []
    sentence = f"it has {theirs} partitions, and {options.left} has {ours}"
    return [Finding("partitions", ERROR, options.right.topic, abs(ours - theirs), sentence)]


def _findings(
    options: Compare,
    partitions: Sequence[PartitionDifferences],
    examples: Sequence[AuditDifference],
) -> list[Finding]:
    """Return a finding for each kind of difference that occurs, with its examples."""
    findings = []
    for kind in KINDS:
        if count := sum(getattr(partition, kind) for partition in partitions):
            sentence = f"{many(count)} {WORDS[kind]}"
            cases = [_example(d) for d in examples if d.kind == kind]
            findings.append(Finding(kind, ERROR, options.right.topic, count, sentence, cases))
    return findings


def _example(difference: AuditDifference) -> Example:
    partition, offset = difference.right or difference.left or (ALL, ALL)
    return Example(partition, offset, difference.key, difference.detail)
