"""Converts the SQL of a query to a DataFrame: names that Spark does not know are topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.views import Views
from kwire.pipeline.querying.words import told

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

UNKNOWN = "TABLE_OR_VIEW_NOT_FOUND"
TOPICS_MAX = 64
"""A statement of more is a mistake; each costs an analysis."""
SPARK_LOGGER = "SQLQueryContextLogger"


def framed(views: Views) -> DataFrame:
    """The streaming DataFrame that the SQL means.

    The views are there while it is analysed, and gone after: a name that the session knows already
    is the caller's own view.  Raises PipelineError where Spark does not take the statement.
    """
    from pyspark.errors import PySparkException

    spark, sql = views.spark, views.asked.sql
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
                        raise PipelineError(told(error)) from error
                made.append(topic)
                _make(views, topic)
    finally:
        for topic in made:
            spark.catalog.dropTempView(topic)
    if unused := sorted(set(views.asked.views) - set(views.used) - {""}):
        raise PipelineError(f"the query does not read {', '.join(unused)}, which an option names")
    if not frame.isStreaming:
        raise PipelineError(
            "this query reads no stream: it is a SELECT that names at least one topic which is no"
            " table"
        )
    return frame


def _make(views: Views, topic: str) -> None:
    from pyspark.errors import PySparkException

    try:
        views.frame(topic).createOrReplaceTempView(f"`{topic}`")
    except PySparkException as error:
        raise PipelineError(f"{topic}: {told(error)}") from error


def _unknown(error: PySparkException) -> str | None:
    """The name that Spark does not know, as it stands in the statement."""
    condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    if condition is None or condition() != UNKNOWN:
        return None
    parameters = error.getMessageParameters() or {}
    quoted = parameters.get("relationName", "")
    parts = re.findall(r"`((?:[^`]|``)+)`", quoted)
    if len(parts) != 1:
        name = ".".join(parts)
        raise PipelineError(f"a topic whose name has a dot is written `{name}`, in backquotes")
    return str(parts[0]).replace("``", "`")


@contextmanager
def _quiet() -> Iterator[None]:
    """PySpark 4 logs every error of analysis with its traces, those that are expected too."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # before Spark 4, which logs none
        yield
        return
    logger = PySparkLogger.getLogger(SPARK_LOGGER)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
