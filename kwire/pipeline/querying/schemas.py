"""Infers the schema of a topic's JSON from a sample, and stores it with the query's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.words import explanation_of
from kwire.pipeline.source import Kafka, Topics, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = "kwire-schemas"
"""The entry of a checkpoint that keeps the schemas.  With another schema, a query could not
continue from its state."""


def infer(spark: SparkSession, kafka: Kafka, topic: str, part: str, records: int) -> str:
    """The schema of the JSON objects in `key` or `value` of a topic's first records.

    Values that are not JSON objects are ignored.  A field whose texts all are ISO 8601 times is a
    TIMESTAMP.  Raises PipelineError if the sample has no JSON object.
    """
    from pyspark.sql import functions as f

    rows = read(spark, kafka, Topics((topic,))).select(f.col(part).cast("string"))
    try:
        sampled = rows.where(f.col(part).isNotNull()).limit(records).collect()
    except Exception as error:  # any error of Java's Kafka client, through py4j
        raise PipelineError(f"{topic}: {explanation_of(error)}") from error
    sample = [row[0] for row in sampled]
    objects = [text for text in sample if _is_object(text)]
    if not objects:
        which = f"none of its first {len(sample)} {part}s is" if sample else f"no {part} there is"
        raise PipelineError(
            f"no schema can be inferred for {topic}: {which} a JSON object; give a schema, or"
            " another format"
        )
    return _merged(spark, objects)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _merged(spark: SparkSession, objects: Iterable[str]) -> str:
    """Spark's schema for all objects, inferred from one array of them, without a job."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, StructType

    array = f.lit("[" + ",".join(objects) + "]")
    named = spark.range(1).select(f.schema_of_json(array, {"inferTimestamp": "true"})).head()
    assert named is not None, "one row"
    of_array = spark.range(0).select(f.from_json(f.lit(""), named[0]).alias("rows")).schema
    inferred = of_array["rows"].dataType
    assert isinstance(inferred, ArrayType), inferred
    assert isinstance(inferred.elementType, StructType), inferred
    if not inferred.elementType.fields:
        raise PipelineError("no schema can be inferred: the JSON objects of the sample are empty")
    return str(inferred.elementType.json())


class KeptSchemas:
    """The schemas that a query inferred when it first ran, by topic and part."""

    def __init__(self, spark: SparkSession, checkpoint: str | None) -> None:
        """Reads the schemas that an earlier run stored with the checkpoint.  Without a checkpoint,
        schemas last as long as this object."""
        self._spark = spark
        self._path = f"{checkpoint.rstrip('/')}/{KEPT}" if checkpoint else None
        self._schemas: dict[str, str] = {}
        if self._path is not None and self._exists(self._path):
            for row in spark.read.text(self._path).collect():
                self._schemas |= json.loads(row[0])
        self._saved = dict(self._schemas)

    def of(self, kafka: Kafka, topic: str, part: str, records: int) -> str:
        """The kept schema, or one that is inferred from a sample."""
        return self.kept_or(topic, part, lambda: infer(self._spark, kafka, topic, part, records))

    def kept_or(self, topic: str, part: str, found: Callable[[], str]) -> str:
        """The kept schema, or what `found` returns, which is kept then."""
        name = f"{topic} {part}"
        if name not in self._schemas:
            self._schemas[name] = found()
        return self._schemas[name]

    def save(self) -> None:
        """Write new schemas to the checkpoint, if there is one."""
        if self._path is None or self._schemas == self._saved:
            return
        frame = self._spark.createDataFrame([(json.dumps(self._schemas),)], "value string")
        frame.coalesce(1).write.mode("overwrite").text(self._path)
        self._saved = dict(self._schemas)

    def _exists(self, path: str) -> bool:
        """Whether a path exists, in any file system that Spark supports."""
        context = self._spark.sparkContext
        jvm, java_context = context._jvm, context._jsc
        assert jvm is not None, "a session with a driver"
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        files = hadoop_path.getFileSystem(java_context.hadoopConfiguration())
        return bool(files.exists(hadoop_path))
