"""An archive as a DataFrame, and what its files say of the partitions in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.pipeline.archiving.directory import ArchiveBroken, ArchiveDirectory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARCHIVED = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>,"
    " timestamp timestamp, timestampType int, partition int, offset bigint,"
    " topic string, date string"
)
"""Spark's own columns of the records, and those that are in the files' paths."""


def archived(
    spark: SparkSession, directory: Path, topics: Iterable[str] | None = None
) -> DataFrame:
    """The published records of an archive, or of some of its topics, in no particular order.

    It is plain Parquet: this only spares Spark to guess that the topic `2024` is a number.
    """
    archive = ArchiveDirectory(directory)
    archive.require()
    known = archive.topics()
    wanted = known if topics is None else list(topics)
    if missing := [topic for topic in wanted if topic not in known]:
        raise ArchiveBroken(f"the archive in {archive.root} has no topic {', '.join(missing)}")
    if not wanted:
        raise ArchiveBroken(f"the archive in {archive.root} has no records that are published")
    paths = [f"{archive.uri}/topic={topic}" for topic in wanted]
    reader = spark.read.schema(ARCHIVED).option("basePath", archive.uri)
    return reader.parquet(*paths)


def partitions(directory: Path, topic: str) -> int:
    """How many partitions the topic had at least: one more than the highest that has records."""
    import pyarrow.parquet

    highest = -1
    for path in ArchiveDirectory(directory).files(topic):
        metadata = pyarrow.parquet.read_metadata(path)
        names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
        place = names.index("partition")
        for number in range(metadata.num_row_groups):
            highest = max(highest, metadata.row_group(number).column(place).statistics.max)
    return highest + 1
