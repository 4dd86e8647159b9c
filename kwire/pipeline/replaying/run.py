"""Writes an archive's records back to topics, each exactly once: `kwire pipeline replay`.

The records go to their original partitions in their original order.  ExactlyOnceWriter
(kwire.pipeline.exactly_once) writes them; the positions are the archive's offsets.  So a replay
that was killed continues where it stopped, and a finished replay that runs again writes only what
has been archived since.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.pipeline.archiving.directory import ArchiveDirectory
from kwire.pipeline.archiving.reading import partitions
from kwire.pipeline.arrow import limited_batches, with_headers
from kwire.pipeline.cluster import ClusterAdmin
from kwire.pipeline.errors import PipelineError, failure
from kwire.pipeline.exactly_once import WRITTEN_DDL, ExactlyOnceWriter, WritePlan
from kwire.pipeline.following import signals_set
from kwire.pipeline.librdkafka import settings_of
from kwire.pipeline.listening import Step
from kwire.pipeline.replaying import pacing
from kwire.pipeline.replaying.pacing import PacedWriter, ReplayPace
from kwire.pipeline.replaying.replay_progress import Replayed
from kwire.pipeline.replaying.replay_settings import Replay
from kwire.pipeline.replaying.selection import (
    Parts,
    Places,
    behind,
    by_due,
    in_order,
    parts,
    selected,
    topics_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEW_TOPIC = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
"""Of topics that are created: the records keep their timestamps, and are not removed at once
because those are old."""
LOOK_S = 1.0
POLL_S = 0.1
HEAD_START_S = 2.0
"""Between the plan and the first record of a paced replay: tasks take a while to begin."""


def replay(
    spark: SparkSession,
    options: Replay,
    on_step: Callable[[Step], None] | None = None,
    *,
    stop: threading.Event | None = None,
) -> Replayed:
    """Write an archive's records to topics; returns when that is done.

    `on_step` is called every second with the progress.  Ctrl-C, SIGTERM or `stop` end the replay;
    the next call continues it.  Raises PipelineError, also if the target's topics do not fit.
    """
    run = _ReplayRun(spark, options)
    try:
        return run.run(on_step or (lambda step: None), stop or threading.Event())
    finally:
        run.cluster.close()


class _ReplayRun:
    """One call of `replay`."""

    def __init__(self, spark: SparkSession, options: Replay) -> None:
        """Reads from the archive what is to be replayed, and prepares the writer.  The name of the
        replay decides which records count as written already."""
        self.spark = spark
        self.options = options
        with ArchiveDirectory(options.directory).locked() as state:
            self.archive_id = state.query
        self.topics = topics_of(spark, options)
        self.counts = {topic: partitions(options.directory, topic) for topic in self.topics}
        self.frame = selected(spark, options)
        self.cluster = ClusterAdmin(options.kafka)
        self.done = Replayed(options.name or self._name())
        self.writer = ExactlyOnceWriter(settings_of(options.kafka), f"replay-{self.done.name}")

    def _name(self) -> str:
        """A name that is the same for the same archive, renames and selection."""
        options = self.options
        what = self.archive_id, sorted(options.rename.items()), self.topics, options.ranges
        text = repr((*what, options.since_ms, options.until_ms))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def run(self, on_step: Callable[[Step], None], stop: threading.Event) -> Replayed:
        """Write the records that earlier runs have not written."""
        started = time.monotonic()
        self._prepare_topics()
        positions = self._positions()
        wanted = parts(self.frame)
        todo = parts(behind(self.frame, positions)) if positions else wanted
        self.done.partitions = len(wanted)
        self.done.there = _total(wanted) - _total(todo)
        if todo:
            rows = behind(self.frame, positions) if positions else self.frame
            with signals_set(stop), _Watch(self, todo, on_step, stop):
                self._write(rows, todo, stop)
        left = parts(behind(self.frame, self._positions())) if self.done.stopped else {}
        self.done.records = _total(todo) - _total(left)
        self.done.duration_s = time.monotonic() - started
        return self.done

    def _prepare_topics(self) -> None:
        """Create missing topics.  Raises PipelineError for topics that do not fit."""
        targets = [self.options.target(topic) for topic in self.topics]
        if twice := {target for target in targets if targets.count(target) > 1}:
            raise PipelineError(f"two topics of the archive would go to {twice.pop()}")
        if unused := set(self.options.rename) - set(self.topics):
            raise PipelineError(f"{unused.pop()} is to be renamed, but is not replayed")
        existing = self.cluster.topics()
        settings = self.cluster.settings_of_topics(name for name in targets if name in existing)
        for topic, count in self.counts.items():
            target = self.options.target(topic)
            if target not in existing:
                configs = NEW_TOPIC | dict(self.options.configs)
                if self.cluster.create_topic(target, count, configs, None):
                    self.done.created.append(target)
            elif existing[target].partitions < count:
                raise PipelineError(
                    f"{target} has {existing[target].partitions} partitions, and records of {topic}"
                    f" need {count}: add partitions, or use --rename {topic}=ANOTHER"
                )
            elif settings[target].get("message.timestamp.type") == "LogAppendTime":
                raise PipelineError(
                    f"{target} has message.timestamp.type=LogAppendTime: the records would lose"
                    " their timestamps"
                )

    def _positions(self) -> Places:
        """The offsets of the archive up to which earlier runs have written."""
        sources = {
            (self.options.target(topic), partition): (topic, partition)
            for topic, count in self.counts.items()
            for partition in range(count)
        }
        with self.cluster.member(self.writer.group) as offsets:
            committed = offsets.read(sources)
        return {sources[place]: at.offset for place, at in committed.items()}

    def _write(self, rows: DataFrame, todo: Parts, stop: threading.Event) -> None:
        """Write with Spark's tasks, which are cancelled when `stop` is set."""
        plan = WritePlan(
            targets={topic: self.options.target(topic) for topic in self.topics},
            origins={topic: f"{self.archive_id}/{topic}" for topic in self.topics},
        )
        writer, ordered = self.writer, in_order(rows, len(todo))
        if self.options.speed is not None:
            writer = paced(writer, todo, self.options.speed)
            ordered = by_due(rows, self.spark.sparkContext.defaultParallelism)
        try:
            with limited_batches(self.spark):
                with_headers(ordered).mapInArrow(writer.task(plan), WRITTEN_DDL).collect()
        except Exception as error:
            if not stop.is_set():
                raise failure(error) from error
            self.done.stopped = True

    def how_far(self, todo: Parts) -> int:
        """An estimate of the number of written records, by the committed positions."""
        positions = self._positions()
        shares = (
            part.records * (positions.get(place, 0) - part.first) / (part.end - part.first)
            for place, part in todo.items()
        )
        return int(sum(max(0, share) for share in shares))


class _Watch:
    """A thread that reports the progress of a run, and cancels the run when `stop` is set."""

    def __init__(
        self, run: _ReplayRun, todo: Parts, on_step: Callable[[Step], None], stop: threading.Event
    ) -> None:
        """Reports the progress of the parts `todo` to `on_step`, and cancels the Spark job if
        `stop` is set.  The tag marks the job, so that no other job of the session is cancelled."""
        self.run = run
        self.todo = todo
        self.on_step = on_step
        self.stop = stop
        self._tag = f"kwire-{uuid.uuid4().hex}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="replay-watch", daemon=True)

    def __enter__(self) -> None:
        self.run.spark.sparkContext.addJobTag(self._tag)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.run.spark.sparkContext.removeJobTag(self._tag)

    def _watch(self) -> None:
        """Runs in a thread until the job ends: every `LOOK_S` seconds, it reports how many records
        are written, as committed in the target."""
        before, last_s = 0, time.monotonic()
        total = _total(self.todo)
        while not self._ended.wait(POLL_S):
            if self.stop.is_set():
                self.run.spark.sparkContext.cancelJobsWithTag(self._tag)
            elif (now_s := time.monotonic()) - last_s >= LOOK_S:
                done = self.run.how_far(self.todo)
                step = Step(
                    batch=0,
                    records=done - before,
                    records_per_s=(done - before) / (now_s - last_s),
                    lag=total - done,
                    duration_ms=int((now_s - last_s) * 1000),
                )
                self.on_step(step)
                before, last_s = done, now_s


def paced(writer: ExactlyOnceWriter, todo: Parts, speed: float) -> PacedWriter:
    """A paced writer whose earliest record is due HEAD_START_S from now."""
    first_ms = min(part.timestamp_ms for part in todo.values())
    pace = ReplayPace(first_ms, time.time() + HEAD_START_S, speed)
    pacing.ship_by_value()
    return PacedWriter(writer.client, writer.name, writer.compression, pace=pace)


def _total(selection: Parts) -> int:
    return sum(part.records for part in selection.values())
