"""Writes the rows of a query to its sink, in one of Spark's output modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.query_settings import (
    MODES,
    TEXT,
    Query,
    Sink,
    ToFunction,
    ToParquet,
    ToTopic,
)
from kwire.pipeline.querying.words import explanation_of
from kwire.pipeline.source import Kafka

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RECORD_HEADERS = "array<struct<key:string,value:binary>>"
OF_THE_MODE = "STREAMING_OUTPUT_MODE"
AS_THEY_ARE = frozenset({"string", "binary"})


class Called:
    """The caller's function; keeps its error, which Spark would report as a page of Java."""

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self._function = function
        self.error: BaseException | None = None

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Calls the function with the rows of a micro-batch.  The error is kept, since Spark
        replaces it by an error of its own."""
        try:
            self._function(rows, batch)
        except BaseException as error:
            self.error = error
            raise


def started(frame: DataFrame, options: Query, checkpoint: str | None) -> tuple[StreamingQuery, str]:
    """Start the query in the mode of its settings, or in the first one that Spark accepts.

    Spark checks the plan before anything runs.  Raises PipelineError if Spark refuses every mode.
    """
    from pyspark.errors import AnalysisException

    refusals: list[AnalysisException] = []
    for mode in [options.mode] if options.mode else _modes(options.sink):
        try:
            writer = triggered(written(frame, options.sink, options.kafka), options)
            if checkpoint is not None:
                writer = writer.option("checkpointLocation", checkpoint)
            return writer.outputMode(mode).start(), mode
        except AnalysisException as error:
            refusals.append(error)
    # An error about the query in one mode says more than that another mode is unsupported.
    about_query = [error for error in refusals if OF_THE_MODE not in str(error)]
    refusal = (about_query or refusals)[0]
    raise PipelineError(explanation_of(refusal)) from refusal


def _modes(sink: Sink) -> tuple[str, ...]:
    """The modes to try.  Files only support append."""
    return MODES[:1] if isinstance(sink, ToParquet) else MODES


def triggered(writer: DataStreamWriter, options: Query) -> DataStreamWriter:
    """The writer with the trigger of the settings."""
    if options.once:
        return writer.trigger(availableNow=True)
    if options.every_s is not None:
        return writer.trigger(processingTime=f"{round(options.every_s * 1000)} milliseconds")
    return writer


def written(frame: DataFrame, sink: Sink, kafka: Kafka) -> DataStreamWriter:
    """The writer of a sink."""
    if isinstance(sink, ToFunction):
        return frame.writeStream.foreachBatch(sink.function)
    if isinstance(sink, ToParquet):
        writer = frame.writeStream.format("parquet").option("path", sink.directory)
        return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
    return to_topic(records(frame, sink), kafka, sink.topic)


def to_topic(frame: DataFrame, kafka: Kafka, topic: str) -> DataStreamWriter:
    """Spark's Kafka sink.  Its option `topic` would override a column `topic`."""
    writer = frame.writeStream.format("kafka").options(**kafka.options())
    return writer if "topic" in frame.columns else writer.option("topic", topic)


def records(frame: DataFrame, sink: ToTopic) -> DataFrame:
    """The rows in the columns of Spark's Kafka sink."""
    from pyspark.sql import functions as f

    own = {name.lower(): name for name in frame.columns if name.startswith("_")}
    names = [name for name in frame.columns if not name.startswith("_")]
    if not names:
        raise PipelineError(
            "every column of the result begins with an underscore: no value is left"
        )
    columns = [_value(frame, names, sink).alias("value")]
    if "_key" in own:
        columns.append(_as_bytes(frame, own["_key"]).alias("key"))
    if "_headers" in own:
        columns.append(f.col(own["_headers"]).cast(RECORD_HEADERS).alias("headers"))
    if "_topic" in own:
        columns.append(f.coalesce(f.col(own["_topic"]), f.lit(sink.topic)).alias("topic"))
    return frame.select(*columns)


def _value(frame: DataFrame, names: list[str], sink: ToTopic) -> Column:
    """Return the value column of the result: all columns as JSON, or the only column as text.
    Nulls are kept in the JSON, so that all records have the same fields."""
    from pyspark.sql import functions as f

    quoted = [f.col(f"`{name}`") for name in names]
    if sink.format != TEXT:
        return f.to_json(f.struct(*quoted), {"ignoreNullFields": "false"})
    if len(names) != 1:
        raise PipelineError(f"text needs one column, but the result has {', '.join(names)}")
    return _as_bytes(frame, names[0])


def _as_bytes(frame: DataFrame, name: str) -> Column:
    """Text and bytes unchanged, other values as text, structures as JSON."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    kind = frame.schema[name].dataType
    column = f.col(f"`{name}`")
    if isinstance(kind, StructType | ArrayType | MapType):
        return f.to_json(column)
    return column if kind.simpleString() in AS_THEY_ARE else column.cast("string")
