"""Makes Spark views of topics: streams of records, or tables of the latest value of each key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.decoding import CORRUPT, Decoding, decoding
from kwire.pipeline.querying.query_settings import JSON, REGISTRY, Form, Query, View
from kwire.pipeline.querying.registered import PROBLEM, latest_id
from kwire.pipeline.querying.schemas import KeptSchemas
from kwire.pipeline.source import Topics, read, read_stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OF_THE_RECORD = ("_key", "_partition", "_offset", "_timestamp", "_headers")
"""Columns of every view from the record itself.  A field of the same name is left out."""
VALUE = "value"
OF_VALUE = "_kwire_value"
OF_KEY = "_kwire_key"
WHY = "_kwire_why"
WITH_ZONE = "timestamp"
SKIPPED, SKIPPED_OF_TABLE = "kwire.skipped.", "kwire.skipped-of-table."
"""Prefixes of the names of Spark's metrics for skipped records; the topic's name follows.
A table is read again for each micro-batch."""
SKIPPED_COUNT = "records"


@dataclass
class Views:
    """The views of the topics in a query's SQL.  The schemas of each topic are inferred once."""

    spark: SparkSession
    options: Query
    kept: KeptSchemas

    def __post_init__(self) -> None:
        self.used: dict[str, View] = {}
        self.columns: dict[str, str] = {}

    def view_of(self, topic: str) -> View:
        """How the topic is read, with inferred schemas where none are given."""
        if topic not in self.used:
            view = self.options.view_of(topic)
            self.used[topic] = replace(
                view,
                value=self._with_schema(topic, "value", view.value),
                key=self._with_schema(topic, "key", view.key),
            )
        return self.used[topic]

    def _with_schema(self, topic: str, part: str, form: Form) -> Form:
        """Return the form with a schema: a JSON form without one gets the stored or inferred
        schema, and the form of a registry the stored or latest id."""
        if form.kind not in (JSON, REGISTRY) or form.schema is not None:
            return form
        options = self.options
        if form.kind == REGISTRY:
            subject = f"{topic}-{part}"
            found = self.kept.kept_or(topic, part, lambda: latest_id(options.registry, subject))
            return replace(form, schema=found)
        return replace(
            form, schema=self.kept.of(options.kafka, topic, part, options.sample_records)
        )

    def frame(self, topic: str) -> DataFrame:
        """The view of a topic, with the rows that parse.

        Other records are skipped, become dead letters, or fail the query, as its settings say.
        """
        view = self.view_of(topic)
        records = self._latest(topic) if view.table else self.records(topic)
        judged = self._judged(records, view)
        if self.options.skip_bad:
            judged = _counted(judged, topic, table=view.table)
        frame = self._rows(judged, topic)
        self.columns[topic] = frame.schema.simpleString()
        return frame if view.watermark is None else _watermarked(frame, topic, *view.watermark)

    def records(self, topic: str) -> DataFrame:
        """The topic's records as a stream, with the columns of Spark's source."""
        starting = self.options.starting
        at_time = isinstance(starting, int)
        return read_stream(
            self.spark,
            self.options.kafka,
            Topics((topic,)),
            starting="earliest" if isinstance(starting, int) else starting,
            startingTimestamp=starting if at_time else None,
            startingOffsetsByTimestampStrategy="latest" if at_time else None,
            maxOffsetsPerTrigger=self.options.records_per_batch,
        )

    def bad(self, topic: str) -> DataFrame:
        """The stream of the topic's records that do not parse, with the reasons."""
        from pyspark.sql import functions as f

        judged = self._judged(self.records(topic), self.view_of(topic))
        return judged.where(f.col(WHY).isNotNull())

    def _latest(self, topic: str) -> DataFrame:
        """The last record of each key, without keys whose last value is null.

        Offsets order the records of a partition.  Timestamps only order the records of a key that
        moved to another partition because the topic got more partitions.
        """
        from pyspark.sql import functions as f

        records = read(self.spark, self.options.kafka, Topics((topic,)))
        records = records.where(f.col("key").isNotNull())
        record = f.struct(*(column for column in records.columns if column != "key"))
        in_partition = records.groupBy("key", "partition").agg(
            f.max_by(record, f.col("offset")).alias("record")
        )
        newest = in_partition.groupBy("key").agg(
            f.max_by("record", f.struct("record.timestamp", "record.offset")).alias("record")
        )
        return newest.select("key", "record.*").where(f.col("value").isNotNull())

    def _judged(self, records: DataFrame, view: View) -> DataFrame:
        """The records with their decoded value and key, and the reason if they do not parse."""
        from pyspark.sql import functions as f

        registry = self.options.registry
        value = decoding(self.spark, "value", view.value, registry)
        key = decoding(self.spark, "key", view.key, registry)
        whys = []
        for part, name in ((value, OF_VALUE), (key, OF_KEY)):
            records = records.select("*", _once(part).alias(name))
            if part.why is not None:
                why = part.why(f.col(name))
                whys.append(why if part is value else f.concat(f.lit("key: "), why))
        named = f.col(OF_VALUE) if value.fields else f.struct(f.col(OF_VALUE).alias(VALUE))
        why = f.coalesce(*whys) if whys else f.lit(None).cast("string")
        return records.withColumn(WHY, why).withColumn(OF_VALUE, named)

    def _rows(self, judged: DataFrame, topic: str) -> DataFrame:
        """Return the rows of records that parse.  Others are left out if they are skipped or
        become dead letters; else they fail the query with their position.  Fields that have the
        name of a column of the record are left out."""
        from pyspark.sql import functions as f

        good = f.col(WHY).isNull()
        if not self.options.skip_bad and self.options.dead_letters is None:
            place = f.concat_ws(
                " ",
                f.lit(f"{topic}: the record at partition"),
                "partition",
                f.lit("offset"),
                "offset",
            )
            advice = f.lit("name a topic for dead letters, or skip such records")
            message = f.concat(place, f.lit(" is "), f.col(WHY), f.lit(": "), advice)
            good = f.when(good, f.lit(True)).otherwise(f.raise_error(message).cast("boolean"))
        taken = {name.lower() for name in OF_THE_RECORD} | {CORRUPT, PROBLEM}
        fields = judged.select(f"{OF_VALUE}.*").columns
        rows = judged.where(good)
        return rows.select(
            *(f.col(OF_VALUE)[name].alias(name) for name in fields if name.lower() not in taken),
            f.col(OF_KEY).alias("_key"),
            *(f.col(name[1:]).alias(name) for name in OF_THE_RECORD[1:]),
        )


def _counted(judged: DataFrame, topic: str, *, table: bool) -> DataFrame:
    """The same records, with a metric that counts those that do not parse in each micro-batch."""
    from pyspark.sql import functions as f

    return judged.observe(
        f"{SKIPPED_OF_TABLE if table else SKIPPED}{topic}", f.count(f.col(WHY)).alias(SKIPPED_COUNT)
    )


def _once(part: Decoding) -> Column:
    """The decoded column, computed once per row.

    Spark pushes a filter below a projection, and would then parse once for each use in the filter
    and again for the projection.  It does not push a filter on the result of explode below it.
    """
    from pyspark.sql import functions as f

    return part.whole if part.why is None else f.explode(f.array(part.whole))


def _watermarked(frame: DataFrame, topic: str, column: str, delay: str) -> DataFrame:
    """The stream with a watermark on a column, which must be a timestamp."""
    by_name = {field.name.lower(): field for field in frame.schema.fields}
    field = by_name.get(column.lower())
    if field is None:
        raise PipelineError(
            f"{topic} has no column {column} for a watermark; it has {', '.join(frame.columns)}"
        )
    kind = field.dataType.simpleString()
    if not kind.startswith(WITH_ZONE):
        raise PipelineError(
            f"{topic}.{column} is {kind}, and a watermark needs a timestamp: give a schema with"
            f" {column} TIMESTAMP"
        )
    return frame.withWatermark(field.name, delay)
