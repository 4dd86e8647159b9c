"""Columns of bounded size from which the figures of an audit are computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.pipeline.audit.audit_settings import Field

if TYPE_CHECKING:
    from pyspark.sql import Column

KEY_BYTES_MAX = 1024
"""The part of a key that is shown and hashed.  The digest distinguishes longer keys."""
FIELD_CHARS_MAX = 256
"""The part of an identity that is shown."""


def size_of(name: str) -> Column:
    """The size of a key or value in bytes; -1 for null."""
    from pyspark.sql import functions as f

    return f.coalesce(f.octet_length(name), f.lit(-1))


def timestamp_ms() -> Column:
    """The timestamp in Kafka's form: milliseconds, or -1 if there is none."""
    from pyspark.sql import functions as f

    return f.unix_millis("timestamp")


def headers_bytes() -> Column:
    """The size of all header names and values in bytes."""
    from pyspark.sql import functions as f

    def add(total: Column, header: Column) -> Column:
        return (
            total
            + f.octet_length(header["key"])
            + f.coalesce(f.octet_length(header["value"]), f.lit(0))
        )

    return f.coalesce(f.aggregate("headers", f.lit(0), add), f.lit(0))


def digest(parts: Iterable[str]) -> Column:
    """A hash of 128 bits of these parts of a record.

    It consists of two 64-bit hashes of Spark with different seeds.  Sizes are hashed too, because
    Spark's hash skips null: a null key and a null value would have the same hash.
    """
    from pyspark.sql import functions as f

    columns = [column for part in parts for column in _hashed(part)]
    return f.struct(
        f.xxhash64(*columns).alias("a"), f.xxhash64(f.lit("other seed"), *columns).alias("b")
    )


def _hashed(part: str) -> list[Column]:
    """Return the columns from which the digest of a part of the record is computed.  Each value
    comes after its size, so that different splits of the same bytes have different digests."""
    from pyspark.sql import functions as f

    if part == "timestamp":
        return [timestamp_ms()]
    if part != "headers":
        return [size_of(part), f.col(part)]
    sized = f.transform(
        "headers",
        lambda h: f.struct(
            f.octet_length(h["key"]),
            h["key"],
            f.coalesce(f.octet_length(h["value"]), f.lit(-1)),
            h["value"],
        ),
    )
    return [f.coalesce(f.size("headers"), f.lit(0)), sized]


def field_of(wanted: Field) -> Column:
    """The text of a field, or null if the record has none.  The last header of a name counts."""
    from pyspark.sql import functions as f

    if wanted.source == "json":
        return f.get_json_object(f.col("value").cast("string"), wanted.path)
    named = f.filter("headers", lambda h: h["key"] == f.lit(wanted.path))
    return f.try_element_at(named, f.lit(-1))["value"].cast("string")


def number_of(wanted: Field) -> Column:
    """The value of an integer field, or null if it is missing or not an integer."""
    from pyspark.sql import functions as f

    text = f.trim(field_of(wanted))
    return f.when(text.rlike(r"^[+-]?[0-9]{1,18}$"), text.cast("bigint"))


def by_crc32(key: Column, partitions: Column) -> Column:
    """The partition that librdkafka's default partitioner, consistent_random, chooses."""
    from pyspark.sql import functions as f

    return f.crc32(key) % partitions
