"""Converts the SQL of a query to a DataFrame: names that Spark does not know are topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.views import Views
from kwire.pipeline.querying.words import explanation_of

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

UNKNOWN = "TABLE_OR_VIEW_NOT_FOUND"
TOPICS_MAX = 64
"""The most topics in a statement.  Each one takes another analysis."""
SPARK_LOGGER = "SQLQueryContextLogger"


def framed(views: Views) -> DataFrame:
    """The streaming DataFrame of the SQL.

    The views exist only during the analysis.  A name that the session already has is the caller's
    own view.  Raises PipelineError if Spark refuses the statement.
    """
    from pyspark.errors import PySparkException

    spark, sql = views.spark, views.options.sql
    made: list[str] = []
    try:
        with _quiet():
            while True:
                try:
                    frame = spark.sql(sql)
                    break
                except PySparkException as error:
                    topic = _unknown(error)
                    if topic is None or topic in made or len(made) == TOPICS_MAX:
                        raise PipelineError(explanation_of(error)) from error
                made.append(topic)
                _make(views, topic)
    finally:
        for topic in made:
            spark.catalog.dropTempView(topic)
    if unused := sorted(set(views.options.views) - set(views.used) - {""}):
        raise PipelineError(f"an option names {', '.join(unused)}, which the query does not read")
    if not frame.isStreaming:
        raise PipelineError(
            "this query reads no stream: use a SELECT with at least one topic that is not a table"
        )
    return frame


def _make(views: Views, topic: str) -> None:
    """Makes a Spark view of a topic.  Raises PipelineError with the topic's name if Spark
    refuses."""
    from pyspark.errors import PySparkException

    try:
        views.frame(topic).createOrReplaceTempView(f"`{topic}`")
    except PySparkException as error:
        raise PipelineError(f"{topic}: {explanation_of(error)}") from error


def _unknown(error: PySparkException) -> str | None:
    """The unknown table name in Spark's error, or None if the error is another one."""
    condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    if condition is None or condition() != UNKNOWN:
        return None
    parameters = error.getMessageParameters() or {}
    quoted = parameters.get("relationName", "")
    parts = re.findall(r"`((?:[^`]|``)+)`", quoted)
    if len(parts) != 1:
        name = ".".join(parts)
        raise PipelineError(f"a topic name with a dot needs backquotes: `{name}`")
    return str(parts[0]).replace("``", "`")


@contextmanager
def _quiet() -> Iterator[None]:
    """Disables PySpark 4's log of analysis errors, because some of them are expected here."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # Spark before 4 logs none
        yield
        return
    logger = PySparkLogger.getLogger(SPARK_LOGGER)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
