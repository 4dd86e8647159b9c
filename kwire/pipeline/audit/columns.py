"""A record in a few columns of bounded size: what the figures of an audit are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.pipeline.audit.audit_settings import Field

if TYPE_CHECKING:
    from pyspark.sql import Column

KEY_BYTES_MAX = 1024
"""So much of a key is kept, to be shown and hashed; longer ones are told apart by their digest."""
FIELD_CHARS_MAX = 256
"""So much of an identity is kept, to be shown."""


def size_of(name: str) -> Column:
    """The bytes of a key or value; -1 for null."""
    from pyspark.sql import functions as f

    return f.coalesce(f.octet_length(name), f.lit(-1))


def timestamp_ms() -> Column:
    """The timestamp as Kafka has it: milliseconds, -1 where there is none."""
    from pyspark.sql import functions as f

    return f.unix_millis("timestamp")


def headers_bytes() -> Column:
    """The bytes of all headers' names and values."""
    from pyspark.sql import functions as f

    def add(total: Column, header: Column) -> Column:
        return (
            total
            + f.octet_length(header["key"])
            + f.coalesce(f.octet_length(header["value"]), f.lit(0))
        )

    return f.coalesce(f.aggregate("headers", f.lit(0), add), f.lit(0))


def digest(parts: Iterable[str]) -> Column:
    """128 bits that are other for other contents of these parts of a record.

    Two of Spark's 64-bit hashes, begun with different seeds.  Sizes are hashed too: Spark's hash
    passes over null, so that a null key and a null value would count as one.
    """
    from pyspark.sql import functions as f

    columns = [column for part in parts for column in _hashed(part)]
    return f.struct(
        f.xxhash64(*columns).alias("a"), f.xxhash64(f.lit("other seed"), *columns).alias("b")
    )


def _hashed(part: str) -> list[Column]:
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
    """A field's text; null where the record has none.  Of several such headers the last counts."""
    from pyspark.sql import functions as f

    if wanted.source == "json":
        return f.get_json_object(f.col("value").cast("string"), wanted.path)
    named = f.filter("headers", lambda h: h["key"] == f.lit(wanted.path))
    return f.try_element_at(named, f.lit(-1))["value"].cast("string")


def number_of(wanted: Field) -> Column:
    """A field that is a whole number; null where it is missing or something else."""
    from pyspark.sql import functions as f

    text = f.trim(field_of(wanted))
    return f.when(text.rlike(r"^[+-]?[0-9]{1,18}$"), text.cast("bigint"))


def by_crc32(key: Column, partitions: Column) -> Column:
    """The partition that librdkafka's default partitioner, consistent_random, chooses."""
    from pyspark.sql import functions as f

    return f.crc32(key) % partitions
