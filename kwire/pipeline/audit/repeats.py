"""Figures about keys and repeated records, which need all records of a topic at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kwire.pipeline.audit import columns
from kwire.pipeline.audit.figures import first_of_each
from kwire.pipeline.audit.report import Duplicates, Example, Keys
from kwire.pipeline.audit.words import many, shown

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOP_KEYS = 10
PARTITIONS_SHOWN = 8
POSITIVE = 0x7FFFFFFF
"""Removes the sign bit of a hash, as the partitioner does before it takes the remainder."""


def duplicates(rows: DataFrame, column: str, examples: int) -> dict[str, Duplicates]:
    """Records with the same value in a column, for each topic that has any."""
    from pyspark.sql import functions as f

    place = f.struct("partition", "offset")
    groups = (
        rows.where(f.col(column).isNotNull())
        .groupBy("topic", column)
        .agg(
            f.count("*").alias("n"),
            f.min(place).alias("first"),
            f.max(place).alias("last"),
            f.first("key").alias("key"),
        )
        .where("n > 1")
    )
    counts = groups.groupBy("topic").agg(f.count("*").alias("groups"), f.sum("n").alias("all"))
    by_topic = {
        row["topic"]: Duplicates(row["groups"], row["all"] - row["groups"])
        for row in counts.collect()
    }
    if not by_topic:
        return {}
    shown_examples: dict[str, list[Example]] = defaultdict(list)
    for row in first_of_each(groups, examples, f.desc("n"), f.col("first")).collect():
        (partition, offset), (p, o) = row["first"], row["last"]
        what = "" if column == "digest" else f"{row[column]} is "
        detail = f"{what}present {row['n']:,} times, last in partition {p} at {o}"
        shown_examples[row["topic"]].append(Example(partition, offset, shown(row["key"]), detail))
    return {
        topic: Duplicates(d.groups, d.extra, shown_examples[topic]) for topic, d in by_topic.items()
    }


def keys(rows: DataFrame, examples: int) -> dict[str, Keys]:
    """The figures about keys of each topic that has any."""
    places = _places(rows).persist()
    try:
        by_key = _by_key(places)
        counts = _counts(by_key)
        rules = _rules(places)
        top = _top(by_key)
        by_topic = {
            topic: Keys(**figures, **rules.get(topic, {}), top=top[topic])
            for topic, figures in counts.items()
        }
        scattered = (
            _scattered(by_key, examples) if any(k.scattered for k in by_topic.values()) else {}
        )
        misplaced = _misplaced(places, by_topic, examples)
        return {
            topic: replace(
                keys,
                scattered_examples=scattered.get(topic, ()),
                misplaced_examples=misplaced.get(topic, ()),
            )
            for topic, keys in by_topic.items()
        }
    finally:
        places.unpersist()


def _places(rows: DataFrame) -> DataFrame:
    """A row for each key in each partition, with the choices of the default partitioners."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import LongType, StructField, StructType

    from kwire.pipeline.audit import murmur

    import_module("pyspark.cloudpickle").register_pickle_by_value(murmur)
    places = (
        rows.where("key_bytes >= 0")
        .groupBy("topic", "key_digest", "partition", "partitions")
        .agg(
            f.count("*").alias("n"),
            f.first("key").alias("key"),
            f.first("key_bytes").alias("key_bytes"),
            f.min("offset").alias("offset"),
        )
    )
    schema = StructType([*places.schema.fields, StructField("murmur2", LongType())])
    hashed = places.mapInArrow(murmur.with_murmur2, schema)
    is_whole = f.col("key_bytes") <= columns.KEY_BYTES_MAX
    return hashed.select(
        *places.columns,
        f.when(is_whole, f.col("murmur2").bitwiseAND(f.lit(POSITIVE)) % f.col("partitions")).alias(
            "murmur2"
        ),
        f.when(is_whole, f.crc32("key") % f.col("partitions")).alias("crc32"),
    )


def _by_key(places: DataFrame) -> DataFrame:
    """Return a row for each key: its number of records, its first position, and its partitions."""
    from pyspark.sql import functions as f

    return places.groupBy("topic", "key_digest").agg(
        f.sum("n").alias("n"),
        f.first("key").alias("key"),
        f.min(f.struct("partition", "offset")).alias("first"),
        f.sort_array(f.collect_list("partition")).alias("in_partitions"),
    )


def _counts(by_key: DataFrame) -> dict[str, dict[str, Any]]:
    """The counts of each topic, with the names of Keys."""
    from pyspark.sql import functions as f

    counted = by_key.groupBy("topic").agg(
        f.count("*").alias("distinct"),
        f.count_if(f.col("n") > 1).alias("repeated"),
        f.sum("n").alias("records"),
        f.count_if(f.size("in_partitions") > 1).alias("scattered"),
    )
    return _named_by_topic(counted)


def _rules(places: DataFrame) -> dict[str, dict[str, Any]]:
    """The number of records in the partition that each partitioner chooses, with names of Keys."""
    from pyspark.sql import functions as f

    def records(condition: Column) -> Column:
        return f.coalesce(f.sum(f.when(condition, f.col("n"))), f.lit(0))

    counted = places.groupBy("topic").agg(
        records(f.col("murmur2") == f.col("partition")).alias("murmur2"),
        records(f.col("crc32") == f.col("partition")).alias("crc32"),
        records(f.col("murmur2").isNotNull()).alias("hashed"),
    )
    return _named_by_topic(counted)


def _named_by_topic(rows: DataFrame) -> dict[str, dict[str, Any]]:
    dicts = [row.asDict() for row in rows.collect()]
    return {row.pop("topic"): row for row in dicts}


def _top(by_key: DataFrame) -> dict[str, list[tuple[str, int]]]:
    """Return the most frequent keys of each topic with their numbers of records."""
    from pyspark.sql import functions as f

    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for row in first_of_each(by_key, TOP_KEYS, f.desc("n"), f.col("key")).collect():
        found[row["topic"]].append((shown(row["key"]) or "", row["n"]))
    return found


def _scattered(by_key: DataFrame, examples: int) -> dict[str, list[Example]]:
    """Keys that occur in several partitions, the most frequent first."""
    from pyspark.sql import functions as f

    found: dict[str, list[Example]] = defaultdict(list)
    several = by_key.where(f.size("in_partitions") > 1)
    for row in first_of_each(several, examples, f.desc("n"), f.col("first")).collect():
        listed = ", ".join(str(partition) for partition in row["in_partitions"][:PARTITIONS_SHOWN])
        more = ", ..." if len(row["in_partitions"]) > PARTITIONS_SHOWN else ""
        detail = f"{many(row['n'])} in partitions {listed}{more}"
        partition, offset = row["first"]
        found[row["topic"]].append(Example(partition, offset, shown(row["key"]), detail))
    return found


def _misplaced(
    places: DataFrame, keys: Mapping[str, Keys], examples: int
) -> dict[str, list[Example]]:
    """Keys that are in another partition than the topic's usual partitioner chooses."""
    from pyspark.sql import functions as f

    found: dict[str, list[Example]] = defaultdict(list)
    for rule in ("murmur2", "crc32"):
        topics = [topic for topic, k in keys.items() if k.partitioner == rule and k.misplaced]
        if not topics:
            continue
        strays = places.where(f.col("topic").isin(topics) & (f.col(rule) != f.col("partition")))
        for row in first_of_each(strays, examples, f.desc("n"), f.col("key")).collect():
            detail = f"{many(row['n'])}; {rule} says partition {row[rule]}"
            example = Example(row["partition"], row["offset"], shown(row["key"]), detail)
            found[row["topic"]].append(example)
    return found
