"""Reads an archive as a DataFrame, and the number of partitions from its files."""

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
"""The columns of Spark's Kafka source, and those that the files' paths contain."""


def archived(
    spark: SparkSession, directory: Path, topics: Iterable[str] | None = None
) -> DataFrame:
    """The published records of an archive, or of some of its topics, in no particular order.

    The files are plain Parquet.  The schema is given because Spark would take a topic named `2024`
    for a number.  Raises ArchiveBroken if a topic is not in the archive.
    """
    archive = ArchiveDirectory(directory)
    archive.require()
    available = archive.topics()
    wanted = available if topics is None else list(topics)
    if missing := [topic for topic in wanted if topic not in available]:
        raise ArchiveBroken(f"the archive in {archive.root} has no topic {', '.join(missing)}")
    if not wanted:
        raise ArchiveBroken(f"the archive in {archive.root} has no published records")
    paths = [f"{archive.uri}/topic={topic}" for topic in wanted]
    reader = spark.read.schema(ARCHIVED).option("basePath", archive.uri)
    return reader.parquet(*paths)


def partitions(directory: Path, topic: str) -> int:
    """The least number of partitions that the topic had, by the highest partition with records."""
    import pyarrow.parquet

    highest = -1
    for path in ArchiveDirectory(directory).files(topic):
        metadata = pyarrow.parquet.read_metadata(path)
        names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
        column = names.index("partition")
        for number in range(metadata.num_row_groups):
            highest = max(highest, metadata.row_group(number).column(column).statistics.max)
    return highest + 1
