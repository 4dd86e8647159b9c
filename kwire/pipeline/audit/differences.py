"""The differences between the records of two topics, computed by Spark.

Comparing the n-th records of both sides would report every record after a lost one.  So records are
paired by content: the k-th record with some content on one side is the partner of the k-th one on
the other.  A record without a partner is missing or extra.  A missing and an extra record at the
same place between partners are one changed record.  Partners in another order are out of order.
Offsets are not compared, because transaction markers and compaction leave gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.pipeline.audit import columns
from kwire.pipeline.audit.audit_settings import PARTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MISSING, EXTRA, DOUBLED, CHANGED, ORDER = "missing", "extra", "doubled", "changed", "order"
KINDS = (MISSING, EXTRA, DOUBLED, CHANGED, ORDER)


def compared(records: DataFrame, parts: Sequence[str]) -> DataFrame:
    """The columns of a side: `partition`, `offset`, digests of all compared parts and of each."""
    from pyspark.sql import functions as f

    digests = [columns.digest([part])["a"].alias(f"of_{part}") for part in PARTS]
    has_key = f.col("key").isNotNull().alias("has_key")
    return records.select(
        "partition",
        "offset",
        columns.timestamp_ms().alias("timestamp_ms"),
        columns.digest(parts).alias("digest"),
        has_key,
        *digests,
    )


def fingerprints(rows: DataFrame, *, by_partition: bool) -> DataFrame:
    """`partition`, `records`, and two sums of hashes, to detect other records or another order.

    By partition, each hash includes the record's rank.  Otherwise the order does not count, and the
    only row has partition -1.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    hashes = [f.col("digest")["a"], f.col("digest")["b"]]
    if by_partition:
        rank = f.row_number().over(Window.partitionBy("partition").orderBy("offset"))
        rows = rows.withColumn("rank", rank)
        hashes = [f.xxhash64("rank", hash_) for hash_ in hashes]
    else:
        rows = rows.withColumn("partition", f.lit(-1))
    sums = [
        f.sum(hash_.cast("decimal(20,0)")).alias(name)
        for name, hash_ in zip("xy", hashes, strict=True)
    ]
    return rows.groupBy("partition").agg(f.count("*").alias("records"), *sums)


def differences(left: DataFrame, right: DataFrame, *, by_partition: bool) -> DataFrame:
    """A row for each difference of two sides, which are results of `compared`.

    kind                           One of KINDS.
    left_partition, left_offset    The place of the record; null if a side does not have it.
    right_partition, right_offset
    parts                          The parts of a changed record that differ.

    A row of kind ORDER is a record that comes after its predecessor on the left and before it on
    the right.
    """
    paired = _paired(_numbered(left, by_partition), _numbered(right, by_partition), by_partition)
    unpaired = _unpaired(paired, by_partition)
    rows = _changed_and_single(unpaired)
    return rows.unionByName(_out_of_order(paired)) if by_partition else rows


def _numbered(rows: DataFrame, by_partition: bool) -> DataFrame:
    """Adds a record's rank in its partition, and its number among records of the same content."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    group = ["partition", "digest"] if by_partition else ["digest"]
    order = Window.partitionBy("partition").orderBy("offset")
    same = Window.partitionBy(*group).orderBy("partition", "offset")
    return rows.withColumns({"rank": f.row_number().over(order), "nth": f.row_number().over(same)})


def _paired(left: DataFrame, right: DataFrame, by_partition: bool) -> DataFrame:
    """Each record with its partner of the same content, as structs `l` and `r`; one may be null."""
    from pyspark.sql import functions as f

    on = ["partition", "digest", "nth"] if by_partition else ["digest", "nth"]

    def packed(rows: DataFrame, name: str) -> DataFrame:
        whole = f.struct(*rows.columns).alias(name)
        return rows.select(*(f.col(column).alias(f"on_{column}") for column in on), whole)

    keys = [f"on_{column}" for column in on]
    joined = packed(left, "l").join(packed(right, "r"), keys, "full_outer")
    return joined.select("l", "r")


def _out_of_order(paired: DataFrame) -> DataFrame:
    """Return the pairs of equal records whose order differs: the partner has a lower rank than the
    partner of the record before."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    partners = paired.where("l IS NOT NULL AND r IS NOT NULL")
    by_left = Window.partitionBy("l.partition").orderBy("l.rank")
    before = f.lag("r.rank").over(by_left).alias("before")
    turned = partners.select("*", before).where("before > r.rank")
    return _row(turned, f.lit(ORDER), f.array().cast("array<string>"))


def _row(rows: DataFrame, kind: Column, parts: Column) -> DataFrame:
    """Return rows of differences with the positions of the records on both sides, null where a
    side has none.  `parts` are the parts of the record that differ."""
    from pyspark.sql import functions as f

    return rows.select(
        kind.alias("kind"),
        f.col("l.partition").alias("left_partition"),
        f.col("l.offset").alias("left_offset"),
        f.col("r.partition").alias("right_partition"),
        f.col("r.offset").alias("right_offset"),
        parts.alias("parts"),
    )


def _unpaired(paired: DataFrame, by_partition: bool) -> DataFrame:
    """The records without a partner, with the `place` at which they may be a changed record.

    By partition, the place is the number of earlier records with a partner; otherwise the key.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    is_single = f.col("l").isNull() | f.col("r").isNull()
    if not by_partition:
        own = f.coalesce("l", "r")
        place = f.struct(f.lit(-1).alias("in"), f.when(own["has_key"], own["of_key"]).alias("at"))
        return paired.where(is_single).withColumn("place", place)

    def anchored(side: str, other: str) -> DataFrame:
        """Return the records of one side without a partner.  Their place is the partition and the
        number of earlier records with a partner, which is the same on both sides."""
        order = Window.partitionBy(f"{side}.partition").orderBy(f"{side}.rank")
        partners = f.sum(f.col(other).isNotNull().cast("long")).over(order)
        place = f.struct(f.col(f"{side}.partition").alias("in"), partners.alias("at"))
        here = paired.where(f.col(side).isNotNull()).withColumn("place", place)
        return here.where(f.col(other).isNull())

    return anchored("l", "r").unionByName(anchored("r", "l"))


def _changed_and_single(unpaired: DataFrame) -> DataFrame:
    """The rows of kinds CHANGED, MISSING, EXTRA and DOUBLED.

    Two records at the same place, one of each side, are one changed record.  A further copy of an
    existing record on the right is not a changed record but a doubled one.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    own = f.coalesce("l", "r")
    is_double = f.col("l").isNull() & (f.col("r.nth") > 1)
    side = f.when(f.col("l").isNull(), "r").otherwise("l")
    order = Window.partitionBy("place", side, is_double).orderBy(
        own["timestamp_ms"], own["partition"], own["rank"]
    )
    numbered = unpaired.withColumns(
        {"number": f.row_number().over(order), "is_double": is_double, "side": side}
    )
    doubles = numbered.where("is_double")
    singles = numbered.where("NOT is_double")
    lefts = singles.where("side = 'l'").select("place", "number", "l")
    rights = singles.where("side = 'r'").select("place", "number", "r")
    met = lefts.join(rights, ["place", "number"], "full_outer")
    kind = f.when(f.col("l").isNull(), EXTRA).when(f.col("r").isNull(), MISSING).otherwise(CHANGED)
    parts = f.array_compact(
        f.array(*(f.when(f.col(f"l.of_{p}") != f.col(f"r.of_{p}"), f.lit(p)) for p in PARTS))
    )
    nothing = f.array().cast("array<string>")
    shown = f.when(kind == CHANGED, parts).otherwise(nothing)
    return _row(met, kind, shown).unionByName(_row(doubles, f.lit(DOUBLED), nothing))
