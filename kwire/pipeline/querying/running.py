"""Starts a streaming query, and follows it together with the query of its dead letters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError, QueryFailed
from kwire.pipeline.following import Ended, follow
from kwire.pipeline.listening import listening
from kwire.pipeline.querying import dead_letters, sinks
from kwire.pipeline.querying.query_settings import Query, ToFunction
from kwire.pipeline.querying.schemas import KeptSchemas
from kwire.pipeline.querying.sinks import Called
from kwire.pipeline.querying.statement import framed
from kwire.pipeline.querying.views import SKIPPED, SKIPPED_COUNT, SKIPPED_OF_TABLE, Views
from kwire.pipeline.querying.words import explanation_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kwire.pipeline.listening import Step


@dataclass(frozen=True)
class Running:
    """A query that was started.

    rows       Spark's query of the result.
    letters    Spark's query of the dead letters; None without a dead-letter topic.
    mode       append, update or complete.
    schemas    The columns of each topic's view, as DDL.
    called     The function that receives the rows; None for another sink.
    """

    rows: StreamingQuery
    letters: StreamingQuery | None
    mode: str
    schemas: dict[str, str]
    called: Called | None = field(default=None, repr=False)

    def follow(
        self, on_step: Callable[[Step], None] | None = None, *, stop: threading.Event | None = None
    ) -> Done:
        """Wait until the query ends; see `pipeline.follow`.

        If one of the two queries fails, or the query is stopped, both are stopped.
        """
        stop = stop or threading.Event()
        skipped = Skipped()

        def counting(step: Step) -> None:
            skipped.add(step)
            if on_step is not None:
                on_step(step)

        try:
            if self.letters is None:
                ended = follow(self.rows, counting, stop=stop)
                done = Done(ended, skipped=skipped.total)
            else:
                done = self._follow_both(self.letters, counting, stop)
        except QueryFailed as error:
            if self.called is not None and self.called.error is not None:
                raise QueryFailed(explanation_of(self.called.error)) from self.called.error
            raise QueryFailed(explanation_of(error.__cause__ or error)) from error
        if self.letters is not None and (why := self.letters.exception()) is not None:
            raise QueryFailed(f"dead letters: {explanation_of(why)}") from why
        return done

    def _follow_both(
        self,
        letters: StreamingQuery,
        on_step: Callable[[Step], None] | None,
        stop: threading.Event,
    ) -> Done:
        """Follows the query and the query of its dead letters until both end, and returns the
        counts of both.  If the query of dead letters fails, the main query is stopped."""
        written: list[int] = []

        def count(step: Step) -> None:
            written.append(max(0, step.event["sink"].get("numOutputRows", 0)))

        watch = threading.Thread(target=_stop_when_failed, args=(letters, stop))
        watch.start()
        try:
            with listening(letters, count):
                ended = follow(self.rows, on_step, stop=stop)
                if not ended.stopped:  # a stopped query's dead letters have no end to wait for
                    watch.join()
        finally:
            letters.stop()
            watch.join()
        return Done(ended, sum(written))


def _stop_when_failed(query: StreamingQuery, stop: threading.Event) -> None:
    """Wait for the end of a query, and set `stop` if it failed."""
    from pyspark.errors import StreamingQueryException

    try:
        query.awaitTermination()
    except StreamingQueryException:  # Running.follow raises it
        stop.set()


@dataclass(frozen=True)
class Done:
    """What a query did while it was followed.

    rows       What the query of the result did.
    letters    Number of dead letters written.
    skipped    Number of records that did not parse and were skipped.
    """

    rows: Ended
    letters: int = 0
    skipped: int = 0


class Skipped:
    """Counts skipped records by the metrics that Spark observes in each micro-batch."""

    def __init__(self) -> None:
        self._of_streams = 0
        self._of_tables: dict[str, int] = {}

    def add(self, step: Step) -> None:
        """Count a micro-batch.  Each micro-batch reads its tables again as a whole."""
        for name, observed in (step.event.get("observedMetrics") or {}).items():
            if name.startswith(SKIPPED):
                self._of_streams += observed[SKIPPED_COUNT]
            elif name.startswith(SKIPPED_OF_TABLE):
                self._of_tables[name] = observed[SKIPPED_COUNT]

    @property
    def total(self) -> int:
        """The number of skipped records of all topics."""
        return self._of_streams + sum(self._of_tables.values())


def frame(spark: SparkSession, options: Query) -> DataFrame:
    """The streaming DataFrame of a query's SQL, which is not started, for another sink."""
    return framed(Views(spark, options, KeptSchemas(spark, None)))


def query(spark: SparkSession, options: Query) -> Running:
    """Start a streaming query over topics.

    Raises PipelineError before the start if the SQL, a schema or the output mode is invalid.
    """
    called = None
    if isinstance(options.sink, ToFunction):
        called = Called(options.sink.function)
        options = replace(options, sink=ToFunction(called))
    kept = KeptSchemas(spark, options.checkpoint)
    views = Views(spark, options, kept)
    result = framed(views)
    kept.save()
    letters = None
    if options.dead_letters is not None:
        if options.dead_letters in views.used:
            raise PipelineError(
                f"the query reads {options.dead_letters}: choose another topic for dead letters"
            )
        letters = dead_letters.started(views, options.dead_letters, options.checkpoint)
    try:
        rows, mode = sinks.started(result, options, options.checkpoint)
    except PipelineError:
        if letters is not None:
            letters.stop()
        raise
    return Running(rows, letters, mode, views.columns, called)
