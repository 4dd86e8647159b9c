"""The settings of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kwire.pipeline.source import Kafka, Topics

FILE_SIZE_BYTES = 128 << 20
BATCH_RECORDS = 1_000_000
PUBLISH_AFTER_S = 600.0


@dataclass(frozen=True)
class Archive:
    """An archive of topics in Parquet files.

    kafka            The cluster.
    topics           Topics by name, or a pattern that also matches later topics.
    directory        Directory of the archive; all of Spark's machines access it by this path.
    every_s          Interval of micro-batches; None: archive the records up to now, then end.
    file_size_bytes  Approximate size of published files; the last one may be smaller.
    publish_after_s  Maximum time before readers see a record; without `every_s`, the end of the
                     run publishes all records.
    batch_records    Maximum number of offsets in a micro-batch.
    isolation        isolation.level: whether records of open and aborted transactions are read.
    skip_lost        Whether to continue after records that retention deleted before they were read;
                     the archive's state lists the lost offsets.
    """

    kafka: Kafka
    topics: Topics
    directory: Path
    every_s: float | None = None
    file_size_bytes: int = FILE_SIZE_BYTES
    publish_after_s: float = PUBLISH_AFTER_S
    batch_records: int = BATCH_RECORDS
    isolation: str = "read_committed"
    skip_lost: bool = False
