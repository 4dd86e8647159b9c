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
from kwire.pipeline.querying.words import told
from kwire.pipeline.source import Kafka

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RECORD_HEADERS = "array<struct<key:string,value:binary>>"
OF_THE_MODE = "STREAMING_OUTPUT_MODE"
AS_THEY_ARE = frozenset({"string", "binary"})


class Called:
    """The caller's function, and how it failed: Spark tells of that in a page of Java."""

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self._function = function
        self.error: BaseException | None = None

    def __call__(self, rows: DataFrame, batch: int) -> None:
        try:
            self._function(rows, batch)
        except BaseException as error:
            self.error = error
            raise


def started(frame: DataFrame, asked: Query, checkpoint: str | None) -> tuple[StreamingQuery, str]:
    """Start the query in the mode that is asked for, else in the first that Spark takes.

    Spark checks the plan before anything runs.  Raises PipelineError where it takes none.
    """
    from pyspark.errors import AnalysisException

    refusals: list[AnalysisException] = []
    for mode in [asked.mode] if asked.mode else _modes(asked.sink):
        try:
            writer = triggered(written(frame, asked.sink, asked.kafka), asked)
            if checkpoint is not None:
                writer = writer.option("checkpointLocation", checkpoint)
            return writer.outputMode(mode).start(), mode
        except AnalysisException as error:
            refusals.append(error)
    # That one mode does not do says less than what is wrong with the query in another.
    telling = [error for error in refusals if OF_THE_MODE not in str(error)]
    refused = (telling or refusals)[0]
    raise PipelineError(told(refused)) from refused


def _modes(sink: Sink) -> tuple[str, ...]:
    """Those to try; files only grow."""
    return MODES[:1] if isinstance(sink, ToParquet) else MODES


def triggered(writer: DataStreamWriter, asked: Query) -> DataStreamWriter:
    """With the trigger that is asked for."""
    if asked.once:
        return writer.trigger(availableNow=True)
    if asked.every_s is not None:
        return writer.trigger(processingTime=f"{round(asked.every_s * 1000)} milliseconds")
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
    """Spark's Kafka sink; its option `topic` would win over a column of that name."""
    writer = frame.writeStream.format("kafka").options(**kafka.options())
    return writer if "topic" in frame.columns else writer.option("topic", topic)


def records(frame: DataFrame, sink: ToTopic) -> DataFrame:
    """The rows as the columns that Spark's Kafka sink takes."""
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
    from pyspark.sql import functions as f

    quoted = [f.col(f"`{name}`") for name in names]
    if sink.format != TEXT:
        return f.to_json(f.struct(*quoted), {"ignoreNullFields": "false"})
    if len(names) != 1:
        raise PipelineError(f"text is one column, and the result has {', '.join(names)}")
    return _as_bytes(frame, names[0])


def _as_bytes(frame: DataFrame, name: str) -> Column:
    """Text and bytes as they are, other values as text, structures as JSON."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    kind = frame.schema[name].dataType
    column = f.col(f"`{name}`")
    if isinstance(kind, StructType | ArrayType | MapType):
        return f.to_json(column)
    return column if kind.simpleString() in AS_THEY_ARE else column.cast("string")
