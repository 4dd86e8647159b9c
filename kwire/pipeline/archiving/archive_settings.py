"""What is archived where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kwire.pipeline.source import Kafka, Topics

FILE_SIZE_BYTES = 128 << 20
BATCH_RECORDS = 1_000_000
PUBLISH_AFTER_S = 600.0


@dataclass(frozen=True)
class Archive:
    """What is archived where.

    kafka            The cluster.
    topics           Their names, or a pattern: topics that match later are taken then.
    directory        Of the archive; all of Spark's machines see it under this path.
    every_s          How often records are looked for; None: those there are now, and the end.
    file_size_bytes  Files are published when they have about this size, the last one earlier.
    publish_after_s  How long a record waits for others at most before readers see it; without
                     `every_s` the end of the run publishes all.
    batch_records    Offsets that a micro-batch takes at most.
    isolation        Kafka's isolation.level: records of open and aborted transactions or not.
    skip_lost        Whether to go on where records are gone before they were read: retention was
                     faster.  What is lost is written down in the archive's state.
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
