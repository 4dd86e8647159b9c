"""A comparison of two topics from their offsets to its report."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kwire.pipeline.audit import differences as found_by_spark
from kwire.pipeline.audit.audit_settings import Compare, Side
from kwire.pipeline.audit.auditing import Told
from kwire.pipeline.audit.cluster import Seen, Topic, asking, look_up, spark_told
from kwire.pipeline.audit.differences import CHANGED, DOUBLED, EXTRA, KINDS, MISSING, ORDER
from kwire.pipeline.audit.report import (
    SEVERITIES,
    Comparison,
    Difference,
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
"""Stands for all partitions together."""
AROUND = 12
"""Bytes that are shown from where two values differ on."""

WORDS = {
    MISSING: "missing on the right",
    EXTRA: "on the right alone",
    DOUBLED: "on the right once more",
    CHANGED: "saying something else on the right",
    ORDER: "before the predecessor on the right",
}


@dataclass(frozen=True)
class _Half:
    """A side, and its topic as it is now."""

    side: Side
    topic: Topic

    @property
    def offsets(self) -> int:
        """How many are to be read."""
        return sum(r.end - r.start for r in self.topic.ranges)

    def rows(
        self, spark: SparkSession, asked: Compare, only: Collection[int] | None = None
    ) -> DataFrame:
        """Its records, or those of some partitions, as they are compared."""
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
        return found_by_spark.compared(records, asked.parts)


def described(spark: SparkSession, side: Side) -> _Half:
    """A side with its topic as it is now."""
    with asking(spark, side.kafka) as admin:
        return _Half(side, admin.describe(side.topic))


def differences(spark: SparkSession, asked: Compare) -> DataFrame:
    """All differences as a DataFrame: see `kwire.pipeline.audit.differences.differences`."""
    left, right = described(spark, asked.left), described(spark, asked.right)
    return found_by_spark.differences(
        left.rows(spark, asked), right.rows(spark, asked), by_partition=asked.by_partition
    )


def compare(spark: SparkSession, asked: Compare, told: Told = lambda stage: None) -> Comparison:
    """Compare two topics, record by record.

    What is there when it begins is compared.  Where all records are the same, each topic is read
    once; partitions that differ are read again for the details.
    Raises PipelineError where a cluster or Spark does not do what is asked.
    """
    started, now_ms = time.monotonic(), time.time_ns() // 1_000_000
    left, right = described(spark, asked.left), described(spark, asked.right)
    with spark_told():
        told(f"reading {left.offsets:,} and {right.offsets:,} offsets")
        prints = [_fingerprints(half.rows(spark, asked), asked) for half in (left, right)]
        everywhere = sorted({*prints[0], *prints[1]})
        other = [p for p in everywhere if prints[0].get(p) != prints[1].get(p)]
        counts: Mapping[int, Mapping[str, int]] = {}
        examples: list[Difference] = []
        if other:
            told("looking for what differs")
            counts, examples = _details(spark, asked, left, right, other)
    sizes = [{p: print_[0] for p, print_ in side.items()} for side in prints]
    partitions = [
        PartitionDifferences(p, *(side.get(p, 0) for side in sizes), **counts.get(p, {}))
        for p in everywhere
    ]
    return Comparison(
        left=str(asked.left),
        right=str(asked.right),
        made_at_ms=now_ms,
        duration_s=time.monotonic() - started,
        compared=asked.parts,
        by_partition=asked.by_partition,
        partitions=partitions,
        differences=examples,
        findings=[*_shape(asked, left, right), *_findings(asked, partitions, examples)],
    )


_Print = tuple[int, int, int]
"""How many records, and two sums of their hashes."""


def _fingerprints(rows: DataFrame, asked: Compare) -> dict[int, _Print]:
    made = found_by_spark.fingerprints(rows, by_partition=asked.by_partition).collect()
    return {row["partition"]: (row["records"], int(row["x"]), int(row["y"])) for row in made}


def _details(
    spark: SparkSession, asked: Compare, left: _Half, right: _Half, partitions: Sequence[int]
) -> tuple[dict[int, dict[str, int]], list[Difference]]:
    """Counts of each kind for each partition, and some cases of each kind."""
    from pyspark.sql import functions as f

    from kwire.pipeline.audit.figures import first_of_each

    only = partitions if asked.by_partition else None
    found = found_by_spark.differences(
        left.rows(spark, asked, only),
        right.rows(spark, asked, only),
        by_partition=asked.by_partition,
    ).persist()
    try:
        where = f.coalesce("left_partition", "right_partition")
        place = (where if asked.by_partition else f.lit(ALL)).alias("partition")
        counts: dict[int, dict[str, int]] = defaultdict(dict)
        for row in found.groupBy(place, "kind").count().collect():
            counts[row["partition"]][row["kind"]] = row["count"]
        order = where, f.coalesce("left_offset", "right_offset")
        rows = first_of_each(found, asked.examples, *order, by=["kind"]).collect()
    finally:
        found.unpersist()
    return counts, _shown(spark, left, right, rows)


def _shown(spark: SparkSession, left: _Half, right: _Half, rows: Sequence[Row]) -> list[Difference]:
    """The differences with the records that they are about, looked up one by one."""
    made = [
        Difference(
            row["kind"],
            _place(row["left_partition"], row["left_offset"]),
            _place(row["right_partition"], row["right_offset"]),
            None,
            tuple(row["parts"]),
            "",
        )
        for row in rows
    ]
    lefts = _records(spark, left, [d.left for d in made])
    rights = _records(spark, right, [d.right for d in made])
    return [_described(d, lefts, rights) for d in made]


def _place(partition: int | None, offset: int | None) -> tuple[int, int] | None:
    return None if partition is None or offset is None else (partition, offset)


def _records(
    spark: SparkSession, half: _Half, places: Sequence[tuple[int, int] | None]
) -> dict[tuple[int, int], Seen]:
    wanted = [place for place in places if place is not None]
    return look_up(spark, half.side.kafka, half.topic.name, wanted) if wanted else {}


def _described(
    difference: Difference,
    lefts: Mapping[tuple[int, int], Seen],
    rights: Mapping[tuple[int, int], Seen],
) -> Difference:
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


def _changed(part: str, left: Seen, right: Seen) -> str:
    """How a part differs; of a key and a value from which byte on."""
    if part == "timestamp":
        return f"timestamp {left.timestamp_ms} is {right.timestamp_ms}"
    if part == "headers":
        return f"headers {_named(left)} are {_named(right)}"
    ours, theirs = getattr(left, part), getattr(right, part)
    if ours is None or theirs is None:
        return f"{part} {shown(ours) or 'null'} is {shown(theirs) or 'null'}"
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    ours, theirs = shown(ours[at : at + AROUND]), shown(theirs[at : at + AROUND])
    return f"{part} differs from byte {at} on: {ours!r} is {theirs!r}"


def _named(record: Seen) -> str:
    return ", ".join(f"{name}={shown(value, 20)}" for name, value in record.headers) or "(none)"


def _shape(asked: Compare, left: _Half, right: _Half) -> list[Finding]:
    """A finding where records cannot be in the same partitions, for there are others."""
    ours, theirs = len(left.topic.ranges), len(right.topic.ranges)
    if not asked.by_partition or ours == theirs:
        return []
    says = f"it has {theirs} partitions, and {asked.left} has {ours}"
    return [Finding("partitions", ERROR, asked.right.topic, abs(ours - theirs), says)]


def _findings(
    asked: Compare, partitions: Sequence[PartitionDifferences], examples: Sequence[Difference]
) -> list[Finding]:
    found = []
    for kind in KINDS:
        if count := sum(getattr(partition, kind) for partition in partitions):
            says = f"{many(count)} {WORDS[kind]}"
            cases = [_example(d) for d in examples if d.kind == kind]
            found.append(Finding(kind, ERROR, asked.right.topic, count, says, cases))
    return found


def _example(difference: Difference) -> Example:
    partition, offset = difference.right or difference.left or (ALL, ALL)
    return Example(partition, offset, difference.key, difference.detail)
