"""The settings of a streaming query: its SQL, how topics become views, and its sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.source import Kafka, Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JSON = "json"
AVRO = "avro"
CONFLUENT_AVRO = "confluent-avro"
TEXT = "text"
BINARY = "binary"
REGISTRY = "registry"
FORMATS = (JSON, AVRO, CONFLUENT_AVRO, REGISTRY, TEXT, BINARY)
AVRO_FORMATS = frozenset({AVRO, CONFLUENT_AVRO})

MODES = ("append", "update", "complete")
"""Spark's output modes, in the order in which they are tried if none is given."""

SELECT = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/|\()*(SELECT|WITH|FROM)\b", re.I | re.S)
"""How a query begins; Spark runs other statements at once, a DROP TABLE too."""

SAMPLE_RECORDS = 1_000


@dataclass(frozen=True)
class Form:
    """The format of a key or value.

    kind     json; avro; confluent-avro (Avro after a zero byte and a schema id of four bytes, as
             Confluent's serializers write it); registry (Avro, Protobuf or JSON by the schemas of
             the query's registry); text; binary.
    schema   For JSON: Spark's DDL ("id INT, at TIMESTAMP") or Spark's JSON of a schema; None: infer
             it from a sample of the topic.  For Avro: the writer's Avro schema.  For the format
             registry: the id of the schema whose fields become the columns; None: that of the
             latest version of the subject TOPIC-value or TOPIC-key when the query first runs.
    """

    kind: str = JSON
    schema: str | None = None

    def __post_init__(self) -> None:
        """Raise PipelineError for an unknown format, for Avro without a schema, and for text or
        binary with one."""
        if self.kind not in FORMATS:
            raise PipelineError(f"{self.kind!r} is none of the formats {', '.join(FORMATS)}")
        if self.kind in AVRO_FORMATS and self.schema is None:
            raise PipelineError(
                "Avro bytes do not say their schema, it cannot be inferred: give the Avro schema"
                " they were written with"
            )
        if self.kind == REGISTRY and self.schema is not None and not self.schema.isdecimal():
            raise PipelineError("with the format registry, a schema is given by its id")
        if self.kind in {TEXT, BINARY} and self.schema is not None:
            raise PipelineError(f"{self.kind} has no schema: leave it out, or name another format")


@dataclass(frozen=True)
class SchemaRegistry:
    """A schema registry, as Spark's workers reach it.

    urls         Its addresses, separated by commas; None: those of the properties.
    properties   Client properties: basic.auth.user.info and schema.registry.ssl.*
    """

    urls: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """How a topic becomes a view of the same name.

    value       Format of the values: the fields of JSON objects and Avro records become columns,
                any other value is the column `value`.
    key         Format of the column `_key`.
    table       Whether the view is a table of the latest value of each key instead of a stream; a
                null value removes its key.  The table is read again for every micro-batch.
    watermark   A timestamp column, and how late a row may come ("10 minutes").
    """

    value: Form = field(default_factory=Form)
    key: Form = field(default_factory=lambda: Form(TEXT))
    table: bool = False
    watermark: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.table and self.watermark:
            raise PipelineError("a table has no watermark: it is not a stream")


@dataclass(frozen=True)
class ToTopic:
    """Writes rows as records to a topic, at least once: a batch that runs again writes again.

    The columns `_key`, `_headers` and `_topic` become the record's key, headers and topic.  Other
    columns whose name begins with an underscore are left out.  The remaining columns are the value:
    a JSON object, or with the format `text` the only column as it is.
    """

    topic: str
    format: str = JSON

    def __post_init__(self) -> None:
        if self.format not in {JSON, TEXT}:
            raise PipelineError(f"a result is written as json or text, not as {self.format}")


@dataclass(frozen=True)
class ToParquet:
    """Adds rows to a directory of Parquet files, exactly once."""

    directory: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToFunction:
    """Calls a function with the DataFrame of each micro-batch and the batch's number."""

    function: Callable[[DataFrame, int], None]


Sink = ToTopic | ToParquet | ToFunction


@dataclass(frozen=True)
class Query:
    """A streaming query over topics.

    sql                  One SELECT; each name in it that is not a view of the session is a topic.
    sink                 Where the rows of the result go.
    kafka                The cluster of all topics, including those of the sink and dead letters.
    registry             The registry of the topics whose format is `registry`.
    views                How each topic becomes a view; `view` applies to all other topics.
    starting             Where the streams begin without a checkpoint: `earliest`, `latest`, an
                         offset for each partition, or a time in milliseconds since 1970.
    checkpoint           Directory of the query's checkpoint; None: a temporary one, allowed only
                         if the sink is a function.
    once                 Whether to end once all records up to now are processed
                         (Trigger.AvailableNow).
    every_s              Seconds between the starts of micro-batches; None: without a pause.
    mode                 append, update or complete; None: the first of them that the query allows.
    dead_letters         Topic for records that do not parse; None: the first such record ends the
                         query with an error, unless `skip_bad` is set.
    records_per_batch    Maximum number of records of each topic in a micro-batch.
    sample_records       Number of records from which a topic's schema is inferred.
    """

    sql: str
    sink: Sink
    kafka: Kafka = field(default_factory=Kafka)
    views: Mapping[str, View] = field(default_factory=dict)
    view: View = field(default_factory=View)
    starting: Offsets | str | int = "earliest"
    checkpoint: str | None = None
    once: bool = False
    every_s: float | None = None
    mode: str | None = None
    dead_letters: str | None = None
    skip_bad: bool = False
    records_per_batch: int | None = None
    sample_records: int = SAMPLE_RECORDS
    registry: SchemaRegistry = field(default_factory=SchemaRegistry)

    def __post_init__(self) -> None:
        """Raise PipelineError if the settings contradict each other; removes a semicolon at the
        end of the SQL, which Spark would refuse."""
        if self.mode is not None and self.mode not in MODES:
            raise PipelineError(f"{self.mode!r} is none of the modes {', '.join(MODES)}")
        if self.once and self.every_s is not None:
            raise PipelineError("a query that ends when it is done has no time between batches")
        if self.dead_letters and self.skip_bad:
            raise PipelineError("records that do not parse are skipped or kept, not both")
        if self.checkpoint is None and not isinstance(self.sink, ToFunction):
            raise PipelineError(
                "a query that writes needs a checkpoint directory, which remembers how far it is"
            )
        if self.checkpoint is None and self.dead_letters is not None:
            raise PipelineError(
                "dead letters need a checkpoint directory, else each run would write them again"
            )
        if not SELECT.match(self.sql):
            raise PipelineError("a query is one SELECT (or WITH ... SELECT)")
        object.__setattr__(self, "sql", re.sub(r";\s*$", "", self.sql.strip()))

    def view_of(self, topic: str) -> View:
        """How this topic is read."""
        return self.views.get(topic, self.view)

    @property
    def needs_avro(self) -> bool:
        """Whether Spark's Avro module is needed."""
        views = [self.view, *self.views.values()]
        return any(form.kind in AVRO_FORMATS for view in views for form in (view.value, view.key))
