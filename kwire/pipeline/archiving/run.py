"""Writes topics to Parquet files, each record exactly once: `kwire pipeline archive`.

Spark's checkpoint stores the offsets of each micro-batch, so an interrupted batch has the same
offsets when it runs again.  Tasks (`pieces`) write the files of a batch, and the whole batch is
committed at once (`directory`).  So after a kill, no reader sees a partial file or a record twice;
Spark's own Parquet sink does not guarantee that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kwire.pipeline.archiving.archive_settings import Archive
from kwire.pipeline.archiving.directory import (
    HIDDEN,
    ArchiveBroken,
    ArchiveDirectory,
    Lost,
    Piece,
    State,
)
from kwire.pipeline.archiving.publishing import publication, shipped
from kwire.pipeline.arrow import limit_batches
from kwire.pipeline.source import read_stream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SPARK_COLUMNS = (
    "topic", "key", "value", "headers", "timestamp", "timestampType", "partition", "offset",
)  # fmt: skip


def archive(spark: SparkSession, options: Archive) -> StreamingQuery:
    """Start an archive, or continue it; the query ends by itself unless `every_s` is given.

    Call `publish` after its end: otherwise readers see its last records only after the next run.
    """
    directory = ArchiveDirectory(options.directory)
    directory.create()
    with directory.locked() as state:
        directory.sweep(state)
    stream = read_stream(
        spark,
        options.kafka,
        options.topics,
        maxOffsetsPerTrigger=options.batch_records,
        failOnDataLoss=str(not options.skip_lost).lower(),
        **{"kafka.isolation.level": options.isolation},
    )
    writer = (
        stream.writeStream.queryName(f"archive of {options.topics}")
        .foreachBatch(ArchiveBatches(directory, options).write)
        .option("checkpointLocation", f"{directory.uri}/{HIDDEN}/checkpoint")
    )
    if options.every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(options.every_s * 1000)} milliseconds").start()


class ArchiveBatches:
    """Writes the micro-batches of a query into the archive."""

    def __init__(self, directory: ArchiveDirectory, options: Archive) -> None:
        self.directory = directory
        self.options = options

    def write(self, records: DataFrame, batch: int) -> None:
        """Write a batch, unless the archive has it already."""
        with self.directory.locked() as state:
            query = self._query_of(state)
            if batch == state.batch:
                return
            if batch < state.batch:
                raise ArchiveBroken(
                    f"{self.directory.checkpoint} is older than the archive:"
                    f" it asks for batch {batch} after batch {state.batch}"
                )
            self.directory.sweep(state)
            new = sorted(self._write(records), key=_in_order)
            lost = self._lost(batch, new) if self.options.skip_lost else []
            after = publication(
                records.sparkSession,
                self.directory,
                State(query, batch, (), (*state.pieces, *new), (*state.lost, *lost)),
                self.options.file_size_bytes,
                oldest=time.time() - self.options.publish_after_s,
            )
            self.directory.commit(after)
            self.directory.sweep(after)

    def _query_of(self, state: State) -> str:
        """The id of the checkpoint's query.  Raises ArchiveBroken if the archive has another."""
        metadata = self.directory.checkpoint / "metadata"
        query: str = json.loads(metadata.read_text().splitlines()[-1])["id"]
        if state.query not in ("", query):
            raise ArchiveBroken(
                f"the archive in {self.directory.root} was written with another checkpoint than"
                f" {self.directory.checkpoint}: it would get records twice"
            )
        return query

    def _write(self, records: DataFrame) -> list[Piece]:
        """Write the batch's files.  They belong to the archive only when its state names them."""
        from kwire.pipeline.archiving.pieces import PIECE_COLUMNS

        limit_batches(records.sparkSession)
        task = _task(str(self.directory.pieces), self.options.file_size_bytes)
        rows = records.select(*SPARK_COLUMNS).mapInArrow(task, PIECE_COLUMNS).collect()
        now = time.time()
        return [
            Piece(
                row.topic,
                row.date,
                self.directory.relative(row.path),
                row.records,
                row.size_bytes,
                json.loads(row.offsets),
                now,
            )
            for row in rows
        ]

    def _lost(self, batch: int, pieces: Iterable[Piece]) -> list[Lost]:
        """The offsets of the batch that the cluster deleted before they were read."""
        begins, ends = self._offsets(batch - 1), self._offsets(batch)
        read: dict[tuple[str, int], int] = {}
        for piece in pieces:
            for partition, (first, _) in piece.offsets.items():
                key = piece.topic, int(partition)
                read[key] = min(first, read.get(key, first))
        late = {
            (topic, partition): (begin, min(end, read.get((topic, partition), end)))
            for (topic, partition), end in ends.items()
            if (begin := begins.get((topic, partition), end)) < end
        }
        late = {key: (begin, first) for key, (begin, first) in late.items() if begin < first}
        if not late:
            return []
        from kwire.pipeline.cluster import ClusterAdmin

        starts = ClusterAdmin(self.options.kafka).ends(late, earliest=True)
        ranges = {key: (begin, min(first, starts[key])) for key, (begin, first) in late.items()}
        return [
            Lost(*key, begin, end, batch)
            for key, (begin, end) in sorted(ranges.items())
            if begin < end
        ]

    def _offsets(self, batch: int) -> dict[tuple[str, int], int]:
        """The end offset of a batch in each partition, from the query's checkpoint."""
        log = self.directory.checkpoint / "offsets" / str(batch)
        if batch < 0 or not log.exists():
            return {}
        topics: dict[str, dict[str, int]] = json.loads(log.read_text().splitlines()[-1])
        return {
            (topic, int(partition)): offset
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }


def _task(
    directory: str, file_size_bytes: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that writes Parquet files in Spark's workers.  It must not refer to
    modules of kwire, since workers do not have them; `shipped` sends the needed ones by value."""
    from kwire.pipeline.archiving.pieces import write_pieces

    shipped()

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_pieces(batches, directory, file_size_bytes)

    return task


def _in_order(piece: Piece) -> list[tuple[int, int]]:
    """Pieces of one batch by partition and offset."""
    return sorted((int(partition), first) for partition, (first, _) in piece.offsets.items())
