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
    TEXT,
    Form,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

CORRUPT = "_kwire_corrupt"
"""Where from_json puts what it could not parse."""
CONFLUENT_HEADER_BYTES = 5
NEEDS_AVRO = (
    "this Spark session has no Avro: make it with pipeline.session(), or with"
    " org.apache.spark:spark-avro among spark.jars.packages"
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


def decoding(spark: SparkSession, column: Column, form: Form) -> Decoding:
    """Of a binary column by its form; the schema of JSON must be known by now."""
    if form.kind == BINARY:
        return Decoding(column, False, None)
    if form.kind == TEXT:
        return Decoding(_text(column), False, None)
    if form.kind in AVRO_FORMATS:
        return _avro(column, form)
    assert form.kind == JSON
    assert form.schema is not None, "inferred before"
    return _json(column, struct_of(spark, form.schema))


def _text(column: Column) -> Column:
    """Text, with U+FFFD for what is no UTF-8; Spark 3 does so by itself."""
    from pyspark.sql import functions as f

    make_valid = getattr(f, "make_valid_utf8", None)
    return make_valid(column.cast("string")) if make_valid else f.decode(column, "UTF-8")


def struct_of(spark: SparkSession, schema: str) -> StructType:
    """The type that a JSON schema means: DDL, or Spark's own JSON of a struct."""
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
            f"{text!r} is no schema like 'id INT, name STRING': {sentence_of(error)}"
        ) from error
    found = empty.schema["row"].dataType
    if not isinstance(found, StructType) or not found.fields:
        raise PipelineError(
            f"the schema {text!r} names no fields: give it as 'id INT, name STRING'"
        )
    return found


def _struct_of_json(text: str) -> StructType:
    from pyspark.sql.types import StructType

    try:
        tree: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise PipelineError(f"the schema begins as JSON and is none: {error}") from error
    if tree.get("type") == "record":
        raise PipelineError("this schema is one of Avro: say that the format is avro")
    try:
        return StructType.fromJson(tree)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PipelineError(f"the schema is not Spark's JSON of a struct: {error!r}") from error


def _json(column: Column, struct: StructType) -> Decoding:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    text = column.cast("string")
    parsed = f.from_json(
        text,
        StructType([*struct.fields, StructField(CORRUPT, StringType())]),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT},
    )

    def why(whole: Column) -> Column:
        misfits = [
            f.when(_raw_field(text, field.name).isNotNull() & whole[field.name].isNull(), told)
            for field in struct.fields
            if "'" not in field.name
            for told in [f.lit(f"{field.name} {field.dataType.simpleString()}")]
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
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    assert form.schema is not None, "asked for by Form"
    text, schema = form.schema, avro_schema(form.schema)
    confluent = form.kind == CONFLUENT_AVRO
    payload = f.substring(column, CONFLUENT_HEADER_BYTES + 1, 2**31 - 1) if confluent else column
    try:
        decoded = from_avro(payload, text, {"mode": "PERMISSIVE"})
    except (PySparkException, TypeError) as error:
        raise PipelineError(NEEDS_AVRO) from error

    def why(whole: Column) -> Column:
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
    """An Avro schema; Spark's own message of a broken one comes late and is a page."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise PipelineError(f"an Avro schema is JSON, and this is none: {error}") from error


def _is_record(schema: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(schema, dict) and schema.get("type") == "record"


def _not_avro(payload: Column, whole: Column, schema: Any, text: str) -> Column:  # noqa: ANN401 - JSON
    """Whether from_avro gave up: of a record it gives one of nulls, which may also be meant."""
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
