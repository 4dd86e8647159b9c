"""The figures of an audit, computed by Spark over the examined records.

The size of the results on the driver depends on the numbers of partitions, plot buckets and
examples, not on the number of records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kwire.pipeline.audit.audit_settings import Audit
from kwire.pipeline.audit.report import Example, Gap
from kwire.pipeline.audit.scan import APART, FUTURE, NEGATIVE, OLD, frame
from kwire.pipeline.audit.words import duration_name, shown, time_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
ACCURACY = 10_000
"""The accuracy of percentile_approx: the rank is right to one part in 10,000."""
BUCKETS = 100
"""Bars of the plot over time."""
NAMES_MAX = 20
"""The most header names that are listed for a topic."""


def by_partition(rows: DataFrame, options: Audit) -> dict[str, dict[int, dict[str, Any]]]:
    """The figures of each partition with records, by topic, with the names of PartitionFigures."""
    from pyspark.sql import functions as f

    def counted(condition: Column) -> Column:
        return f.count_if(condition)

    c = f.col
    size, step = c("size_bytes"), c("step")
    figures = {
        "records": f.count("*"),
        "size_bytes": f.sum(size),
        "first_offset": f.min("offset"),
        "last_offset": f.max("offset"),
        "gaps": counted(c("gap") > 0),
        "missing": f.sum("gap"),
        "first_ms": f.min(f.when(c("time_is").isNull(), c("timestamp_ms"))),
        "last_ms": f.max(f.when(c("time_is").isNull(), c("timestamp_ms"))),
        "back": counted(c("back_ms") > 0),
        "back_far": counted(c("back_ms") > options.thresholds.back_ms),
        "back_ms_max": f.coalesce(f.max("back_ms"), f.lit(0)),
        **{kind: counted(c("time_is") == kind) for kind in (NEGATIVE, FUTURE, APART, OLD)},
        "null_keys": counted(c("key_bytes") < 0),
        "tombstones": counted(c("value_bytes") < 0),
        "with_headers": counted(f.size("header_names") > 0),
        "append_times": counted(c("is_append_time")),
        "record_bytes_max": f.max(size),
        "record_bytes_max_offset": f.max_by("offset", size),
        "no_identity": counted(c("identity").isNull()) if options.identity else f.lit(0),
        "no_sequence": counted(c("sequence").isNull()) if options.sequence else f.lit(0),
        "stepped": counted(step < 0),
        "repeated": counted(step == 0),
        "skipped": f.coalesce(f.sum(f.when(step > 1, step - 1)), f.lit(0)),
    }
    named = [column.alias(name) for name, column in figures.items()]
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in rows.groupBy("topic", "partition").agg(*named).collect():
        values = row.asDict()
        found[values.pop("topic")][values["partition"]] = values
    return dict(found)


def size_percentiles(rows: DataFrame) -> dict[str, dict[str, int]]:
    """Percentiles of the record sizes of each topic."""
    from pyspark.sql import functions as f

    shares = list(PERCENTILES.values())
    sizes = f.percentile_approx("size_bytes", shares, ACCURACY).alias("sizes")
    return {
        row["topic"]: dict(zip(PERCENTILES, row["sizes"], strict=True))
        for row in rows.groupBy("topic").agg(sizes).collect()
    }


def size_histogram(rows: DataFrame) -> dict[str, list[tuple[int, int]]]:
    """The number of records up to each power of two in bytes, for each topic."""
    from pyspark.sql import functions as f

    power = f.ceil(f.log2(f.greatest(f.col("size_bytes"), f.lit(1)))).alias("power")
    counts = rows.groupBy("topic", power).count().collect()
    powers: dict[str, dict[int, int]] = defaultdict(dict)
    for row in counts:
        powers[row["topic"]][row["power"]] = row["count"]
    return {
        topic: [(2**power, n.get(power, 0)) for power in range(min(n), max(n) + 1)]
        for topic, n in powers.items()
    }


def over_time(
    spark: SparkSession, rows: DataFrame, spans: Mapping[str, tuple[int, int]]
) -> dict[str, list[tuple[int, int]]]:
    """The number of records in at most BUCKETS spans of time, for each topic in `spans`."""
    from pyspark.sql import functions as f

    if not spans:
        return {}
    made = [
        {"topic": topic, "first": first, "width": bucket_ms(first, last)}
        for topic, (first, last) in spans.items()
    ]
    facts = f.broadcast(frame(spark, "topic string, first long, width long", made))
    place = f.floor((f.col("timestamp_ms") - f.col("first")) / f.col("width"))
    start = (f.col("first") + place * f.col("width")).alias("start")
    usual = rows.where(f.col("time_is").isNull()).join(facts, "topic")
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in sorted(usual.groupBy("topic", start).count().collect()):
        found[row["topic"]].append((row["start"], row["count"]))
    return dict(found)


def bucket_ms(first_ms: int, last_ms: int) -> int:
    """The width of a bar in the plot over time."""
    return (last_ms - first_ms) // BUCKETS + 1


def header_names(rows: DataFrame) -> dict[str, list[tuple[str, int]]]:
    """The most frequent header names with their numbers of records, for each topic."""
    from pyspark.sql import functions as f

    names = f.explode(f.array_distinct("header_names")).alias("name")
    counts = rows.select("topic", names).groupBy("topic", "name").agg(f.count("*").alias("n"))
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for row in first_of_each(counts, NAMES_MAX, f.desc("n"), f.col("name")).collect():
        found[row["topic"]].append((row["name"], row["n"]))
    return dict(found)


def largest_gaps(rows: DataFrame, count: int) -> dict[str, list[Gap]]:
    """The largest gaps of offsets in each topic."""
    from pyspark.sql import functions as f

    gaps = rows.where("gap > 0").select("topic", "partition", "offset", "gap")
    order = f.desc("gap"), f.col("partition"), f.col("offset")
    found: dict[str, list[Gap]] = defaultdict(list)
    for row in first_of_each(gaps, count, *order).collect():
        gap = Gap(row["partition"], row["offset"] - row["gap"], row["offset"])
        found[row["topic"]].append(gap)
    return dict(found)


def first_of_each(rows: DataFrame, count: int, *order: Column, by: Sequence[str] = ()) -> DataFrame:
    """The first `count` rows in this order, for each topic or each group by the columns `by`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    window = Window.partitionBy(*(by or ["topic"])).orderBy(*order)
    ranked = rows.withColumn("rank", f.row_number().over(window))
    return ranked.where(f.col("rank") <= count).orderBy(*(by or ["topic"]), "rank")


Describe = Callable[[Mapping[str, Any]], str]
"""Gives the reason why a record is an example."""


def _kinds(options: Audit) -> dict[str, tuple[Column, Column, Describe]]:
    """For each kind of finding: its condition, a number that grows with severity, and a reason."""
    from pyspark.sql import functions as f

    c = f.col
    time_ms = c("timestamp_ms")
    back_ms = options.thresholds.back_ms
    kinds: dict[str, tuple[Column, Column, Describe]] = {
        NEGATIVE: (c("time_is") == NEGATIVE, -time_ms, _timestamp),
        FUTURE: (c("time_is") == FUTURE, time_ms, _timestamp),
        APART: (c("time_is") == APART, -c("offset"), _timestamp),
        OLD: (c("time_is") == OLD, -time_ms, _timestamp),
        "back": (c("back_ms") > back_ms, c("back_ms"), _back),
        "tombstone": (c("value_bytes") < 0, -c("offset"), lambda row: "null value"),
    }
    if options.sequence:
        wrong = (c("step") <= 0) | (c("step") > 1)
        kinds["sequence"] = (wrong, f.abs(c("step") - 1), _sequence)
        missing = c("sequence").isNull()
        kinds["no-sequence"] = (missing, -c("offset"), lambda row: f"no {options.sequence}")
    if options.identity:
        missing = c("identity").isNull()
        kinds["no-identity"] = (missing, -c("offset"), lambda row: f"no {options.identity}")
    return kinds


def _timestamp(row: Mapping[str, Any]) -> str:
    return f"its time is {time_name(row['timestamp_ms'])}"


def _back(row: Mapping[str, Any]) -> str:
    return f"{duration_name(row['back_ms'])} earlier: {time_name(row['timestamp_ms'])}"


def _sequence(row: Mapping[str, Any]) -> str:
    return f"{row['sequence']} after {row['sequence'] - row['step']}"


def examples(rows: DataFrame, options: Audit) -> dict[str, dict[str, list[Example]]]:
    """Example records of each topic and kind of finding."""
    from pyspark.sql import functions as f

    kinds = _kinds(options)
    marks = f.array(
        *(
            f.when(which, f.struct(f.lit(kind).alias("kind"), worst.cast("long").alias("by")))
            for kind, (which, worst, _) in kinds.items()
        )
    )
    shown_columns = "topic partition offset key timestamp_ms back_ms sequence step"
    marked = rows.withColumn("mark", f.explode(f.filter(marks, lambda mark: mark.isNotNull())))
    picked = marked.select(*shown_columns.split(), "mark.kind", "mark.by")
    order = f.desc("by"), f.col("partition"), f.col("offset")
    found: dict[str, dict[str, list[Example]]] = {}
    for row in first_of_each(picked, options.examples, *order, by=["topic", "kind"]).collect():
        detail = kinds[row["kind"]][2](row.asDict())
        example = Example(row["partition"], row["offset"], shown(row["key"]), detail)
        found.setdefault(row["topic"], {}).setdefault(row["kind"], []).append(example)
    return found


def spans(partitions: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, tuple[int, int]]:
    """The first and last usual timestamp of each topic that has any."""
    by_topic = {}
    for topic, figures in partitions.items():
        timed = [(p["first_ms"], p["last_ms"]) for p in figures if p["first_ms"] is not None]
        if timed:
            by_topic[topic] = min(first for first, _ in timed), max(last for _, last in timed)
    return by_topic
