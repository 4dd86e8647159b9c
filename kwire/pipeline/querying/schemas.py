"""Infers the schema of a topic's JSON from a sample, and stores it with the query's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.words import told
from kwire.pipeline.source import Kafka, Topics, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = "kwire-schemas"
"""Of a checkpoint: a query whose schema changed could not go on from its state."""


def infer(spark: SparkSession, kafka: Kafka, topic: str, part: str, records: int) -> str:
    """The DDL of the JSON objects that the first records of a topic hold as `key` or `value`.

    What is no JSON object is left out.  Text that is a time by ISO 8601 in all of them is a
    TIMESTAMP.  No more than the sample is read.  Raises PipelineError where there is none.
    """
    from pyspark.sql import functions as f

    rows = read(spark, kafka, Topics((topic,))).select(f.col(part).cast("string"))
    try:
        found = rows.where(f.col(part).isNotNull()).limit(records).collect()
    except Exception as error:  # of Java's Kafka client as it is, through py4j
        raise PipelineError(f"{topic}: {told(error)}") from error
    sample = [row[0] for row in found]
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
    """Spark's schema of them all: of one array that holds them, without a job."""
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


class Kept:
    """The schemas that a query inferred when it first ran, by topic and part."""

    def __init__(self, spark: SparkSession, checkpoint: str | None) -> None:
        self._spark = spark
        self._path = f"{checkpoint.rstrip('/')}/{KEPT}" if checkpoint else None
        self._schemas: dict[str, str] = {}
        if self._path is not None and self._exists(self._path):
            for row in spark.read.text(self._path).collect():
                self._schemas |= json.loads(row[0])
        self._saved = dict(self._schemas)

    def of(self, kafka: Kafka, topic: str, part: str, records: int) -> str:
        """The schema that is kept, else one of a sample."""
        name = f"{topic} {part}"
        if name not in self._schemas:
            self._schemas[name] = infer(self._spark, kafka, topic, part, records)
        return self._schemas[name]

    def save(self) -> None:
        """Keep what was inferred since, where there is a checkpoint."""
        if self._path is None or self._schemas == self._saved:
            return
        frame = self._spark.createDataFrame([(json.dumps(self._schemas),)], "value string")
        frame.coalesce(1).write.mode("overwrite").text(self._path)
        self._saved = dict(self._schemas)

    def _exists(self, path: str) -> bool:
        """Wherever it is: Hadoop knows the file systems that Spark does."""
        context = self._spark.sparkContext
        jvm, java_context = context._jvm, context._jsc
        assert jvm is not None, "a session with a driver"
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        files = hadoop_path.getFileSystem(java_context.hadoopConfiguration())
        return bool(files.exists(hadoop_path))
