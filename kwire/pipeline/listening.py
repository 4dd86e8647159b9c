"""Reports the micro-batches of a query, from the events of Spark's streaming listener."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kwire.pipeline.errors import QueryFailed

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )
    from pyspark.sql.streaming.query import StreamingQuery

LAST_EVENT_S = 2.0
"""How long to wait for the last event of an ended query; its batches are known without it."""


@dataclass(frozen=True)
class Step:
    """A finished micro-batch, as Spark's listener reports it.

    batch              Its number; a batch that runs again after a crash keeps its number.
    records            Number of records read.
    records_per_s      Records per second of processing time; 0.0 if Spark reports none.
    lag                Records in the topics that were not read when the batch was planned.
    duration_ms        Time from the planning to the commit of the batch.
    event              Spark's progress event as JSON.
    """

    batch: int
    records: int
    records_per_s: float
    lag: int
    duration_ms: int
    event: dict[str, Any] = field(repr=False, default_factory=dict)


def step_of(event: dict[str, Any]) -> Step:
    """Parse the JSON of Spark's progress event."""
    sources = event.get("sources", ())
    return Step(
        batch=event["batchId"],
        records=sum(source.get("numInputRows") or 0 for source in sources),
        records_per_s=float(event.get("processedRowsPerSecond") or 0.0),
        lag=sum(_lag(source) for source in sources),
        duration_ms=event.get("durationMs", {}).get("triggerExecution", 0),
        event=event,
    )


def _lag(source: dict[str, Any]) -> int:
    """The lag of one source: its latest offsets minus the offsets at which the batch ends."""
    latest, end = source.get("latestOffset"), source.get("endOffset")
    if not isinstance(latest, dict) or not isinstance(end, dict):
        return 0
    return sum(
        max(0, offset - end.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


class StepReporter:
    """Reports each batch of one query once, from the listener or from the query's progress."""

    def __init__(self, query: StreamingQuery, on_step: Callable[[Step], None]) -> None:
        """Reports the micro-batches of `query` to `on_step`; `terminated` is set at its end."""
        self.query = query
        self.terminated = threading.Event()
        self._on_step = on_step
        self._last = -1

    def report(self, progress: Any) -> None:  # noqa: ANN401 - a dict in Spark 3, an object since
        """Report a finished batch.  An idle query's progress is of a batch that has not begun."""
        event = json.loads(progress.json) if hasattr(progress, "json") else progress
        if event["batchId"] > self._last and "addBatch" in event.get("durationMs", {}):
            self._last = event["batchId"]
            self._on_step(step_of(event))

    def report_past(self) -> None:
        """Report the batches in the query's recent progress."""
        for progress in self.query.recentProgress:
            self.report(progress)


def _listener_of(steps: StepReporter) -> StreamingQueryListener:
    """Return a Spark listener that passes the events of one run of a query to `steps`.  Spark
    reports the events of all queries of the session, so those of others are ignored."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    run = str(steps.query.runId)

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:
            pass

        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            if str(event.progress.runId) == run:
                steps.report(event.progress)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:
            pass

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            if str(event.runId) == run:
                steps.terminated.set()

    return Listener()


@contextmanager
def listening(query: StreamingQuery, on_step: Callable[[Step], None]) -> Iterator[None]:
    """Call `on_step` with every micro-batch of a query during the block, and the earlier ones."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise QueryFailed("no Spark session is active in this thread")
    steps = StepReporter(query, on_step)
    steps.report_past()
    listener = _listener_of(steps)
    spark.streams.addListener(listener)
    try:
        yield
        if not query.isActive:
            steps.terminated.wait(LAST_EVENT_S)
    finally:
        spark.streams.removeListener(listener)
    steps.report_past()
