"""Runs a mirror: Spark reads the source, its tasks write the target, and group offsets follow."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kwire.pipeline.arrow import limit_batches, with_headers
from kwire.pipeline.cluster import ClusterAdmin, PartitionId
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.exactly_once import WRITTEN_DDL, ExactlyOnceWriter
from kwire.pipeline.librdkafka import settings_of
from kwire.pipeline.mirroring.groups import GroupSync
from kwire.pipeline.mirroring.mirror_progress import Mirrored
from kwire.pipeline.mirroring.mirror_settings import Mirror
from kwire.pipeline.mirroring.offset_map import MirrorOffsetMap
from kwire.pipeline.mirroring.topics import INTERNAL_PREFIXES, TopicSync
from kwire.pipeline.positions import position_of
from kwire.pipeline.rows import COLUMNS
from kwire.pipeline.source import Topics, read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

EARLIEST = -2
LATEST = -1
MAP_S = 10.0
"""How long to wait at the end for markers in the offset map, which follow the broker's response."""


def mirror(spark: SparkSession, options: Mirror) -> Mirroring:
    """Start a mirror, or continue it.  Raises PipelineError if it cannot start.

    The query ends once all records up to now are mirrored; with `every_s`, it continues until it is
    stopped.  The position of the mirror is stored in the target, so it can run on any machine.
    """
    return Mirroring(spark, options)


class Mirroring:
    """A running mirror.

    query   The Spark query, which can be followed and stopped.
    done    What the mirror has done so far; `finish` completes it.
    """

    def __init__(self, spark: SparkSession, options: Mirror) -> None:
        """Creates what the target lacks, reads the map of offsets, and starts the query and the
        thread that follows it."""
        self.options = options
        self.done = Mirrored()
        self._spark = spark
        self._lock = (
            threading.Lock()
        )  # the threads of the batches and of this mirror both read topics
        source, target = ClusterAdmin(options.source), ClusterAdmin(options.target)
        self._source, self._target = source, target
        self._topics = TopicSync(options, source, target, self.done)
        self._map = MirrorOffsetMap(target, options.map_topic)
        self._groups = GroupSync(options, self._topics, self._map)
        self._writer = ExactlyOnceWriter(
            settings_of(options.target),
            options.job,
            compression=options.compression,
            map_topic=options.map_topic,
            bounds=options.bounds,
        )
        self._map.create(options.replication_factor)
        self._sync_topics()
        self._map.read()
        self._positions = self._known_positions(target)
        self._mirrored = dict(self._positions)
        self._written = {
            (options.rename(topic), number): position
            for (topic, number), position in self._positions.items()
        }
        self._error: PipelineError | None = None
        self._own_checkpoint: str | None = None
        self._is_writing = False
        self.query = self._start()
        self._follower = _thread(self._follow, options.job)

    def finish(self) -> Mirrored:
        """Wait for the query's end and the last copy of group offsets.  Raises the copy's error."""
        self._follower.join()
        if self._error is not None:
            raise self._error
        return self.done

    def _matches(self, name: str) -> bool:
        """Whether a topic matches the pattern, by Java's rules as in Spark's source."""
        java: Any = self._spark._jvm
        return bool(java.java.util.regex.Pattern.matches(self.options.topics.pattern, name))

    def _sync_topics(self) -> None:
        with self._lock:
            self._topics.select(self._matches)
            self._topics.sync()

    def _known_positions(self, target: ClusterAdmin) -> dict[PartitionId, int]:
        """The position of each partition of the source, as stored in the target."""
        places = self._places_written()
        with target.member(self._writer.group) as offsets:
            committed = offsets.read(places)
        known: dict[PartitionId, int] = {}
        for name, topic in self._topics.mirrored.items():
            target_name = self.options.rename(name)
            topic_ids = self._topics.origins[name].id, self._topics.ids[target_name]
            for number in range(topic.partitions):
                committed_offset = committed.get((target_name, number))
                stated = committed_offset and position_of(committed_offset.metadata)
                runs = self._map.partitions[target_name, number]
                positions = [
                    position
                    for position, ids in (
                        (
                            committed_offset and committed_offset.offset,
                            stated and (stated.origin, stated.target),
                        ),
                        (runs.position, (runs.origin, runs.target)),
                    )
                    if position and ids == topic_ids
                ]
                if positions:
                    known[name, number] = max(positions)
        return known

    def _starting(self) -> dict[str, dict[int, int]]:
        """The offsets where Spark starts.  Raises PipelineError if their records were deleted."""
        log_starts = self._source.ends(self._positions, earliest=True)
        starting = {}
        for name, topic in self._topics.read.items():
            start = LATEST if name in self._topics.passed_over else EARLIEST
            starting[name] = dict.fromkeys(range(topic.partitions), start)
        for (name, number), position in self._positions.items():
            log_start = log_starts[name, number]
            if position < log_start and not self.options.skip_lost:
                raise PipelineError(
                    f"the source has deleted the records {position} to {log_start - 1} of partition"
                    f" {number} of {name} before they were mirrored: continue without them with"
                    " --skip-lost"
                )
            starting[name][number] = max(position, log_start)
        return starting

    def _start(self) -> StreamingQuery:
        """Starts the streaming query.  Positions come from the target, not from a checkpoint, so
        each run has a new checkpoint directory."""
        options = self.options
        topics = options.topics
        if topics.pattern:
            excluded = "|".join(INTERNAL_PREFIXES)
            topics = Topics(pattern=f"(?!{excluded})(?:{topics.pattern})")
        starting = self._starting()
        if options.checkpoint is None:
            self._own_checkpoint = tempfile.mkdtemp(prefix="kwire-mirror-")
        stream = read_stream(
            self._spark,
            options.source,
            topics,
            starting=starting,
            maxOffsetsPerTrigger=options.batch_records,
            failOnDataLoss=str(not options.skip_lost).lower(),
        )
        checkpoint = self._own_checkpoint or f"{options.checkpoint}/{uuid.uuid4()}"
        writer = (
            stream.writeStream.queryName(f"mirror of {options.topics}")
            .foreachBatch(self._write)
            .option("checkpointLocation", checkpoint)
        )
        if options.every_s is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(
            processingTime=f"{round(options.every_s * 1000)} milliseconds"
        ).start()

    def _write(self, records: DataFrame, batch: int) -> None:
        """Write a micro-batch.  Each task writes the one source partition that it read."""
        from pyspark.sql import functions as f

        self._sync_topics()
        if self._topics.passed_over:
            records = records.where(~f.col("topic").isin(*self._topics.passed_over))
        self._is_writing = True
        limit_batches(records.sparkSession)
        task = self._writer.task(self._topics.plan(batch, dict(self._written)))
        rows = with_headers(records.select(*COLUMNS))
        for written in rows.mapInArrow(task, WRITTEN_DDL).collect():
            self.done.records += written.records
            self.done.skipped += written.skipped
            self.done.size_bytes += written.size_bytes
            self.done.transactions += written.transactions
            self._written[written.topic, written.partition] = written.position
        self._is_writing = False

    def _follow(self) -> None:
        """Follow the query to its end, then close the clusters."""
        try:
            self._follow_groups()
        finally:
            self._source.close()
            self._target.close()

    def _follow_groups(self) -> None:
        """Copy group offsets while the query runs, and once more after its end."""
        self._sync_groups()
        while not self._has_ended(self.options.sync_s):
            if self.options.every_s is not None:
                self._sync_groups(with_topics=True)
        if self._is_writing:
            self._writer.release(self._places_written())
        self._map.wait_for(self._written, MAP_S)
        self._sync_groups()
        if self._own_checkpoint is not None:
            shutil.rmtree(self._own_checkpoint, ignore_errors=True)

    def _places_written(self) -> list[PartitionId]:
        """The partitions of the target that a stopped task may have been writing."""
        return [
            (self.options.rename(name), number)
            for topic in self._topics.mirrored.values()
            for name, number in topic.places()
        ]

    def _has_ended(self, timeout_s: float) -> bool:
        """Waits at most `timeout_s` seconds; returns whether the query has ended, also by an
        error."""
        from pyspark.errors import StreamingQueryException

        try:
            return bool(self.query.awaitTermination(max(1, round(timeout_s))))
        except StreamingQueryException:
            return True  # the caller that follows the query gets the error

    def _sync_groups(self, *, with_topics: bool = False) -> None:
        """Copy group offsets once.  A failure is retried the next time, and raised at the end."""
        try:
            if with_topics:
                self._sync_topics()
            self._update_progress()
            self.done.groups = self._groups.sync(self._mirrored, dict(self._written))
            self._error = None
        except PipelineError as error:
            self._error = error

    def _update_progress(self) -> None:
        """Update the mirrored positions and the lag from the finished batches."""
        for progress in self.query.recentProgress:
            event: dict[str, Any] = (
                json.loads(progress.json) if hasattr(progress, "json") else progress
            )
            if "addBatch" in event.get("durationMs", {}):
                self._note_ends(event["sources"][0].get("endOffset") or {})
        ends = self._source.ends(
            place for topic in self._topics.mirrored.values() for place in topic.places()
        )
        self.done.lag = sum(
            max(0, end - self._mirrored.get(partition, 0)) for partition, end in ends.items()
        )

    def _note_ends(self, ends: dict[str, dict[str, int]]) -> None:
        """Stores up to which source offset each partition is mirrored.  An offset never goes
        back."""
        for topic, partitions in ends.items():
            for number, offset in partitions.items():
                partition = topic, int(number)
                self._mirrored[partition] = max(offset, self._mirrored.get(partition, 0))


def _thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread that may use Spark.  PySpark's class for it closes its connection."""
    from pyspark import InheritableThread

    thread: threading.Thread = InheritableThread(target=target, name=name, daemon=True)
    thread.start()
    return thread
