"""Decodes the bytes of a key or value to columns, and says why bytes do not match the schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from kwire.pipeline.errors import PipelineError, sentence_of
from kwire.pipeline.querying.query_settings import (
    AVRO_FORMATS,
    BINARY,
    CONFLUENT_AVRO,
    JSON,
    REGISTRY,
    TEXT,
    Form,
    SchemaRegistry,
)
from kwire.pipeline.querying.registered import registered

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

CORRUPT = "_kwire_corrupt"
"""The column of from_json for text that it cannot parse."""
CONFLUENT_HEADER_BYTES = 5
NEEDS_AVRO = (
    "this Spark session has no Avro: create it with pipeline.session(), or with"
    " org.apache.spark:spark-avro in spark.jars.packages"
)


@dataclass(frozen=True)
class Decoding:
    """How a column of bytes is decoded.

    whole     The decoded column: a struct if `fields`, else one value.
    fields    Whether the struct's fields become columns of the view.
    why       Makes a column of text from the column `whole`: why the bytes do not match the schema;
              null if they match, or if there are no bytes.  None if all bytes match.
    """

    whole: Column
    fields: bool
    why: Callable[[Column], Column] | None


def decoding(spark: SparkSession, part: str, form: Form, registry: SchemaRegistry) -> Decoding:
    """The decoding of the binary column `key` or `value` by its form.

    A JSON form must have a schema, and the form of a registry the id of one.
    """
    from pyspark.sql import functions as f

    column = f.col(part)
    if form.kind == BINARY:
        return Decoding(column, False, None)
    if form.kind == TEXT:
        return Decoding(_text(column), False, None)
    if form.kind in AVRO_FORMATS:
        return _avro(column, form)
    assert form.schema is not None, "inferred before, or looked up"
    if form.kind == REGISTRY:
        found = registered(spark, column, part, int(form.schema), registry)
        return Decoding(found.whole, True, found.why)
    assert form.kind == JSON
    return _json(column, struct_of(spark, form.schema))


def _text(column: Column) -> Column:
    """Text, with U+FFFD for invalid UTF-8.  Spark 3 does that by default."""
    from pyspark.sql import functions as f

    make_valid = getattr(f, "make_valid_utf8", None)
    return make_valid(column.cast("string")) if make_valid else f.decode(column, "UTF-8")


def struct_of(spark: SparkSession, schema: str) -> StructType:
    """The type of a JSON schema, which is given as DDL or as Spark's JSON of a struct."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    if (text := schema.strip()).startswith("{"):
        return _struct_of_json(text)
    try:
        # StructType.fromDDL asks the active session, which a thread of the caller may not have.
        empty = spark.range(0).select(f.from_json(f.lit(""), text).alias("row"))
    except PySparkException as error:
        raise PipelineError(
            f"{text!r} is not a schema such as 'id INT, name STRING': {sentence_of(error)}"
        ) from error
    struct = empty.schema["row"].dataType
    if not isinstance(struct, StructType) or not struct.fields:
        raise PipelineError(f"the schema {text!r} has no fields: give it as 'id INT, name STRING'")
    return struct


def _struct_of_json(text: str) -> StructType:
    """Parses a schema in Spark's JSON.  Raises PipelineError if it is none, also for an Avro
    schema."""
    from pyspark.sql.types import StructType

    try:
        tree: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise PipelineError(
            f"the schema starts like JSON but is not valid JSON: {error}"
        ) from error
    if tree.get("type") == "record":
        raise PipelineError("this is an Avro schema: choose the format avro")
    try:
        return StructType.fromJson(tree)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PipelineError(f"the schema is not Spark's JSON of a struct: {error!r}") from error


def _json(column: Column, struct: StructType) -> Decoding:
    """Return the decoding of a column of JSON.  PERMISSIVE makes null fields of wrong values
    instead of an error; the column `CORRUPT` marks such records."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    text = column.cast("string")
    parsed = f.from_json(
        text,
        StructType([*struct.fields, StructField(CORRUPT, StringType())]),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT},
    )

    def why(whole: Column) -> Column:
        """Return a column that says why a record does not match: not JSON, or the fields whose
        JSON has a value but whose column is null."""
        misfits = [
            f.when(
                _raw_field(text, field.name).isNotNull() & whole[field.name].isNull(), description
            )
            for field in struct.fields
            if "'" not in field.name
            for description in [f.lit(f"{field.name} {field.dataType.simpleString()}")]
        ]
        named = f.concat_ws(", ", *misfits)
        because = (
            f.when(f.get_json_object(text, "$").isNull(), f.lit("not JSON"))
            .when(named != "", f.concat(f.lit("not of the schema: "), named))
            .otherwise(f.lit("not of the schema"))
        )
        bad = column.isNotNull() & (whole.isNull() | whole[CORRUPT].isNotNull())
        return f.when(bad, because)

    return Decoding(parsed, True, why)


def _raw_field(text: Column, name: str) -> Column:
    from pyspark.sql import functions as f

    return f.get_json_object(text, f"$['{name}']")


def _avro(column: Column, form: Form) -> Decoding:
    """Return the decoding of a column of Avro, after the header with the schema id in Confluent's
    format.  Raises PipelineError if the session has no Avro."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    assert form.schema is not None, "required by Form"
    text, schema = form.schema, avro_schema(form.schema)
    confluent = form.kind == CONFLUENT_AVRO
    payload = f.substring(column, CONFLUENT_HEADER_BYTES + 1, 2**31 - 1) if confluent else column
    try:
        decoded = from_avro(payload, text, {"mode": "PERMISSIVE"})
    except (PySparkException, TypeError) as error:
        raise PipelineError(NEEDS_AVRO) from error

    def why(whole: Column) -> Column:
        """Return a column that says why a record does not match: not Avro of the schema, or
        without the header of Confluent's format (a zero byte and a 4-byte schema id)."""
        bad = column.isNotNull() & _not_avro(payload, whole, schema, text)
        wrong = f.when(bad, f.lit("not Avro of the schema"))
        if not confluent:
            return wrong
        headless = (f.length(column) < CONFLUENT_HEADER_BYTES) | (
            f.hex(f.substring(column, 1, 1)) != "00"
        )
        return f.when(headless, f.lit("no schema id before the Avro")).otherwise(wrong)

    return Decoding(decoded, _is_record(schema), why)


def avro_schema(text: str) -> Any:  # noqa: ANN401 - JSON
    """The parsed Avro schema.  Spark would report a broken one late and with a page of text."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise PipelineError(f"an Avro schema must be JSON, but this is not: {error}") from error


def _is_record(schema: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(schema, dict) and schema.get("type") == "record"


def _not_avro(payload: Column, whole: Column, schema: Any, text: str) -> Column:  # noqa: ANN401 - JSON
    """Whether from_avro failed.  It then returns a record of nulls, which may also be valid."""
    from pyspark.sql.avro.functions import to_avro

    if not _is_record(schema):
        return whole.isNull()
    names = [field["name"] for field in schema["fields"]]
    empty = reduce(lambda a, b: a & b, [whole[name].isNull() for name in names])
    if not all(_nullable(field["type"]) for field in schema["fields"]):
        return empty
    return empty & (to_avro(whole, text) != payload)


def _nullable(kind: Any) -> bool:  # noqa: ANN401 - JSON
    return kind == "null" or (isinstance(kind, list) and "null" in kind)
