"""The columns of Spark for schemas of Avro, Protobuf and JSON Schema.

Two types are made of each schema: as which `from_json` reads the JSON of `RecordSchema.decoded`,
and to which the result is cast.  They differ where Protobuf's JSON has a number of 64 bits as text.
What has no type of Spark, such as a union of several types or a type that contains itself, is a
column of text with its JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.registered import WRAPPED
from kwire.registry.schemas.kinds import SchemaKind
from kwire.registry.schemas.values.json_schema import parsed_json
from kwire.registry.schemas.values.record_schema import RecordSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

DEPTH_MAX: Final = 20
"""Structs within each other; deeper ones are text."""
AVRO: Final = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "fixed": "BINARY",
}  # fmt: skip
AVRO_LOGICAL: Final = {
    "date": "DATE", "timestamp-millis": "TIMESTAMP", "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ", "local-timestamp-micros": "TIMESTAMP_NTZ",
    "time-millis": "STRING", "time-micros": "STRING", "uuid": "STRING",
}  # fmt: skip
PROTOBUF: Final = {
    1: "DOUBLE", 2: "FLOAT", 3: "BIGINT", 4: "DECIMAL(20,0)", 5: "INT", 6: "DECIMAL(20,0)",
    7: "BIGINT", 8: "BOOLEAN", 9: "STRING", 12: "BINARY", 13: "BIGINT", 14: "STRING", 15: "INT",
    16: "BIGINT", 17: "INT", 18: "BIGINT",
}  # fmt: skip
"""By `FieldDescriptor.type`."""
AS_TEXT: Final = frozenset({3, 4, 6, 16, 18})
"""The types of 64 bits, which Protobuf's JSON has as text: read as decimals, then cast."""
WELL_KNOWN: Final = {
    "Timestamp": "TIMESTAMP", "BoolValue": "BOOLEAN", "StringValue": "STRING",
    "BytesValue": "BINARY", "DoubleValue": "DOUBLE", "FloatValue": "FLOAT",
    "Int32Value": "INT", "UInt32Value": "BIGINT",
}  # fmt: skip
"""Messages of google.protobuf with a JSON of their own; all others of them are text."""
JSON_SCHEMA: Final = {"boolean": "BOOLEAN", "integer": "BIGINT", "number": "DOUBLE"}
TEXT: Final = "STRING"


def columns_of(spark: SparkSession, schema: RecordSchema) -> tuple[StructType, StructType]:
    """The struct that is read, and the one to which it is cast.

    Data that are no object are the column `value`.  Raises InvalidSchemaError, and PipelineError if
    there is no column.
    """
    read, cast = (struct(spark, ddl_of(schema, as_read=as_read)) for as_read in (True, False))
    return read, cast


def ddl_of(schema: RecordSchema, *, as_read: bool) -> str:
    """Spark's DDL of the data, which is `STRUCT<...>` if they are an object with known fields."""
    if schema.kind is SchemaKind.AVRO:
        return _avro(schema.avro.schema, schema.avro.named, ())
    if schema.kind is SchemaKind.PROTOBUF:
        return _message(schema.message(), (), as_read=as_read)
    whole = parsed_json(schema.text)
    return _json_schema(whole, whole, 0)


def struct(spark: SparkSession, ddl: str) -> StructType:
    """The struct of a type: itself, or with the one column `value`."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    # StructType.fromDDL asks the active session, which a thread of the caller may not have.
    row = f.from_json(f.lit(""), f"`{WRAPPED}` {ddl}").alias("row")
    wrapped = spark.range(0).select(row).schema["row"].dataType
    assert isinstance(wrapped, StructType), wrapped
    found = wrapped.fields[0].dataType
    if not isinstance(found, StructType):
        return wrapped
    if not found.fields:
        raise PipelineError("the schema has no fields, so that there are no columns")
    return found


def _struct(fields: Mapping[str, str]) -> str:
    inside = ", ".join(f"`{name.replace('`', '``')}`: {kind}" for name, kind in fields.items())
    return f"STRUCT<{inside}>"


def _avro(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> str:  # noqa: ANN401 - JSON
    """The type of a schema of Avro.  `within` are the records around it."""
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return _avro(kinds[0], named, within) if len(kinds) == 1 else TEXT
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    kind = schema["type"]
    if not isinstance(kind, str) or kind in named:
        return _avro(kind, named, within)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
    if logical in AVRO_LOGICAL:
        return AVRO_LOGICAL[logical]
    match kind:
        case "record" | "error":
            if schema["name"] in within or len(within) >= DEPTH_MAX or not schema["fields"]:
                return TEXT if within else _struct({})
            inner = (*within, schema["name"])
            fields = {each["name"]: _avro(each["type"], named, inner) for each in schema["fields"]}
            return _struct(fields)
        case "array":
            return f"ARRAY<{_avro(schema['items'], named, within)}>"
        case "map":
            return f"MAP<STRING, {_avro(schema['values'], named, within)}>"
    return AVRO.get(kind, TEXT)


def _message(message: Any, within: tuple[str, ...], *, as_read: bool) -> str:  # noqa: ANN401 - of C
    """The type of a Protobuf message.  `within` are the messages around it."""
    if message.full_name in within or len(within) >= DEPTH_MAX:
        return TEXT
    if message.file.package == "google.protobuf":
        return WELL_KNOWN.get(message.name, TEXT)
    inner = (*within, message.full_name)
    fields = {each.name: _field(each, inner, as_read=as_read) for each in message.fields}
    return _struct(fields) if fields or not within else TEXT


def _field(field: Any, within: tuple[str, ...], *, as_read: bool) -> str:  # noqa: ANN401 - of C
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        value = _single(inner.fields_by_name["value"], within, as_read=as_read)
        return f"MAP<STRING, {value}>"
    kind = _single(field, within, as_read=as_read)
    return f"ARRAY<{kind}>" if is_repeated(field) else kind


def is_repeated(field: Any) -> bool:  # noqa: ANN401 - a descriptor of C
    """Whether a field of a message is a list.  Protobuf 5 has only its label."""
    found = getattr(field, "is_repeated", None)
    return bool(found) if found is not None else field.label == field.LABEL_REPEATED


def _single(field: Any, within: tuple[str, ...], *, as_read: bool) -> str:  # noqa: ANN401 - of C
    """The type of one value of a field."""
    if field.message_type is not None:
        return _message(field.message_type, within, as_read=as_read)
    if as_read and field.type in AS_TEXT:
        return "DECIMAL(20,0)"
    return PROTOBUF[field.type]


def _json_schema(schema: Any, whole: Any, depth: int) -> str:  # noqa: ANN401 - JSON
    """The type of a JSON Schema.  `whole` is the schema in which `$ref` points."""
    if not isinstance(schema, dict) or depth > DEPTH_MAX:
        return TEXT
    if "$ref" in schema:
        return _json_schema(_at_pointer(whole, schema["$ref"]), whole, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    branches = [
        each
        for each in schema.get("oneOf") or schema.get("anyOf") or ()
        if each != {"type": "null"}
    ]
    if kind is None and len(branches) == 1:
        return _json_schema(branches[0], whole, depth + 1)
    match kind:
        case "object" if schema.get("properties"):
            fields = schema["properties"].items()
            return _struct({name: _json_schema(each, whole, depth + 1) for name, each in fields})
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            values = _json_schema(schema["additionalProperties"], whole, depth + 1)
            return f"MAP<STRING, {values}>"
        case "array":
            return f"ARRAY<{_json_schema(schema.get('items'), whole, depth + 1)}>"
    return JSON_SCHEMA.get(str(kind), TEXT)


def _at_pointer(whole: Any, reference: str) -> Any:  # noqa: ANN401 - JSON
    """What a `$ref` inside the same schema points to; None if there is nothing."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found = whole
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found
