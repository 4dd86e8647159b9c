"""Runs a mirror: Spark reads the source, its tasks write the target, and group offsets follow."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kwire.pipeline.cluster import ClusterAdmin, PartitionId
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.exactly_once import WRITTEN_DDL, ExactlyOnceWriter
from kwire.pipeline.librdkafka import settings_of
from kwire.pipeline.mirroring.groups import GroupSync
from kwire.pipeline.mirroring.mirror_progress import Mirrored
from kwire.pipeline.mirroring.mirror_settings import Mirror
from kwire.pipeline.mirroring.offset_map import OffsetMap
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
"""How long markers in the map of offsets may take at the end: they are written after the reply."""


def mirror(spark: SparkSession, asked: Mirror) -> Mirroring:
    """Start a mirror, or continue it.  Raises PipelineError if it cannot start.

    The query ends once all records up to now are mirrored; with `every_s`, it continues until it is
    stopped.  The position of the mirror is stored in the target, so it can run on any machine.
    """
    return Mirroring(spark, asked)


class Mirroring:
    """A running mirror.

    query   The Spark query, which can be followed and stopped.
    done    What the mirror has done so far; `finish` completes it.
    """

    def __init__(self, spark: SparkSession, asked: Mirror) -> None:
        self.asked = asked
        self.done = Mirrored()
        self._spark = spark
        self._lock = threading.Lock()  # the batches' thread and ours both look at topics
        source, target = ClusterAdmin(asked.source), ClusterAdmin(asked.target)
        self._source, self._target = source, target
        self._topics = TopicSync(asked, source, target, self.done)
        self._map = OffsetMap(target, asked.map_topic)
        self._groups = GroupSync(asked, self._topics, self._map)
        self._writer = ExactlyOnceWriter(
            settings_of(asked.target),
            asked.job,
            compression=asked.compression,
            map_topic=asked.map_topic,
            bounds=asked.bounds,
        )
        self._map.create(asked.replication_factor)
        self._sync_topics()
        self._map.read()
        self._positions = self._known_positions(target)
        self._mirrored = dict(self._positions)
        self._written = {
            (asked.rename(topic), number): position
            for (topic, number), position in self._positions.items()
        }
        self._error: PipelineError | None = None
        self._own_checkpoint: str | None = None
        self._is_writing = False
        self.query = self._start()
        self._follower = _thread(self._follow, asked.job)

    def finish(self) -> Mirrored:
        """Wait for the query's end, and see groups a last time; raises what kept them behind."""
        self._follower.join()
        if self._error is not None:
            raise self._error
        return self.done

    def _matches(self, name: str) -> bool:
        """As Spark's source takes the pattern, which is Java's."""
        java: Any = self._spark._jvm
        return bool(java.java.util.regex.Pattern.matches(self.asked.topics.pattern, name))

    def _sync_topics(self) -> None:
        with self._lock:
            self._topics.select(self._matches)
            self._topics.sync()

    def _known_positions(self, target: ClusterAdmin) -> dict[PartitionId, int]:
        """How far each partition of the source has come, by what the target holds."""
        places = self._places_written()
        with target.member(self._writer.group) as offsets:
            committed = offsets.read(places)
        known: dict[PartitionId, int] = {}
        for name, topic in self._topics.mirrored.items():
            there = self.asked.rename(name)
            life = self._topics.origins[name].id, self._topics.ids[there]
            for number in range(topic.partitions):
                held = committed.get((there, number))
                told = held and position_of(held.metadata)
                runs = self._map.partitions[there, number]
                positions = [
                    position
                    for position, of in (
                        (held and held.offset, told and (told.origin, told.target)),
                        (runs.position, (runs.origin, runs.target)),
                    )
                    if position and of == life
                ]
                if positions:
                    known[name, number] = max(positions)
        return known

    def _starting(self) -> dict[str, dict[int, int]]:
        """Where Spark begins to read each partition; PipelineError where records are gone."""
        begins = self._source.ends(self._positions, earliest=True)
        starting = {}
        for name, topic in self._topics.read.items():
            start = LATEST if name in self._topics.passed_over else EARLIEST
            starting[name] = dict.fromkeys(range(topic.partitions), start)
        for (name, number), position in self._positions.items():
            begin = begins[name, number]
            if position < begin and not self.asked.skip_lost:
                raise PipelineError(
                    f"the source has deleted the records {position} to {begin - 1} of partition"
                    f" {number} of {name} before they were mirrored: go on without them with"
                    " --skip-lost"
                )
            starting[name][number] = max(position, begin)
        return starting

    def _start(self) -> StreamingQuery:
        asked = self.asked
        topics = asked.topics
        if topics.pattern:
            excluded = "|".join(INTERNAL_PREFIXES)
            topics = Topics(pattern=f"(?!{excluded})(?:{topics.pattern})")
        starting = self._starting()
        if asked.checkpoint is None:
            self._own_checkpoint = tempfile.mkdtemp(prefix="kwire-mirror-")
        stream = read_stream(
            self._spark,
            asked.source,
            topics,
            starting=starting,
            maxOffsetsPerTrigger=asked.batch_records,
            failOnDataLoss=str(not asked.skip_lost).lower(),
        )
        checkpoint = self._own_checkpoint or f"{asked.checkpoint}/{uuid.uuid4()}"
        writer = (
            stream.writeStream.queryName(f"mirror of {asked.topics}")
            .foreachBatch(self._write)
            .option("checkpointLocation", checkpoint)
        )
        if asked.every_s is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(asked.every_s * 1000)} milliseconds").start()

    def _write(self, records: DataFrame, batch: int) -> None:
        """Write a micro-batch: each task the one partition of the source that it has read."""
        from pyspark.sql import functions as f

        self._sync_topics()
        if self._topics.passed_over:
            records = records.where(~f.col("topic").isin(*self._topics.passed_over))
        self._is_writing = True
        task = self._writer.task(self._topics.plan(batch, dict(self._written)))
        for written in records.select(*COLUMNS).mapInArrow(task, WRITTEN_DDL).collect():
            self.done.records += written.records
            self.done.skipped += written.skipped
            self.done.size_bytes += written.size_bytes
            self.done.transactions += written.transactions
            self._written[written.topic, written.partition] = written.position
        self._is_writing = False

    def _follow(self) -> None:
        """Follow the query to its end, and let the clusters go."""
        try:
            self._follow_groups()
        finally:
            self._source.close()
            self._target.close()

    def _follow_groups(self) -> None:
        """Have groups follow, while the query runs and once more when it has ended."""
        self._sync_groups()
        while not self._has_ended(self.asked.sync_s):
            if self.asked.every_s is not None:
                self._sync_groups(with_topics=True)
        if self._is_writing:
            self._writer.release(self._places_written())
        self._map.wait_for(self._written, MAP_S)
        self._sync_groups()
        if self._own_checkpoint is not None:
            shutil.rmtree(self._own_checkpoint, ignore_errors=True)

    def _places_written(self) -> list[PartitionId]:
        """Partitions of the target that a task may have been writing when it was stopped."""
        return [
            (self.asked.rename(name), number)
            for topic in self._topics.mirrored.values()
            for name, number in topic.places()
        ]

    def _has_ended(self, timeout_s: float) -> bool:
        from pyspark.errors import StreamingQueryException

        try:
            return bool(self.query.awaitTermination(max(1, round(timeout_s))))
        except StreamingQueryException:
            return True  # whoever follows the query is told why

    def _sync_groups(self, *, with_topics: bool = False) -> None:
        """Look once; what fails is tried again the next time, and told at the end."""
        try:
            if with_topics:
                self._sync_topics()
            self._see_progress()
            self.done.groups = self._groups.sync(self._mirrored, dict(self._written))
            self._error = None
        except PipelineError as error:
            self._error = error

    def _see_progress(self) -> None:
        """How far batches that are done have come, and what is left."""
        for progress in self.query.recentProgress:
            event: dict[str, Any] = (
                json.loads(progress.json) if hasattr(progress, "json") else progress
            )
            if "addBatch" in event.get("durationMs", {}):
                self._see_ends(event["sources"][0].get("endOffset") or {})
        ends = self._source.ends(
            place for topic in self._topics.mirrored.values() for place in topic.places()
        )
        self.done.lag = sum(
            max(0, end - self._mirrored.get(partition, 0)) for partition, end in ends.items()
        )

    def _see_ends(self, ends: dict[str, dict[str, int]]) -> None:
        for topic, partitions in ends.items():
            for number, offset in partitions.items():
                partition = topic, int(number)
                self._mirrored[partition] = max(offset, self._mirrored.get(partition, 0))


def _thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread that may talk to Spark; PySpark's own class closes its connection."""
    from pyspark import InheritableThread

    thread: threading.Thread = InheritableThread(target=target, name=name, daemon=True)
    thread.start()
    return thread
