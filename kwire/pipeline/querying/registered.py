"""Decodes records by the schemas of a registry, on Spark's workers.

The columns are those of one schema, the reader's.  Each record is decoded by its own schema: Avro
as the reader's schema sees it, Protobuf and JSON by the names of their fields.  A worker asks the
registry for each schema once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.query_settings import SchemaRegistry
from kwire.registry.client.framing import SchemaFrame, frame_of
from kwire.registry.schemas.kinds import InvalidSchemaError, SchemaKind
from kwire.registry.schemas.values.data import Shape
from kwire.registry.schemas.values.problem import CannotDecode

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from kwire.registry.client.registered import RegisteredSchemas

PROBLEM: Final = "_kwire_problem"
"""The field that says why a record does not match its schema."""
WRAPPED: Final = "value"
"""The column of data that are no object."""
SHAPE: Final = Shape(names_branches=True, with_defaults=True, as_base64=True)
"""What Spark's from_json takes: it reads bytes as base64."""


@dataclass(frozen=True)
class RegisteredDecoding:
    """A decoded column, a struct, and the function that makes the column of reasons from it."""

    whole: Column
    why: Callable[[Column], Column]


def latest_id(registry: SchemaRegistry, subject: str) -> str:
    """The id of the latest version of a subject.  Raises PipelineError."""
    from kwire.client.errors import ClientError
    from kwire.registry.client.configured import client_of

    try:
        found = client_of(registry.urls, registry.properties).version(subject).schema_id
    except ClientError as problem:
        raise PipelineError(f"the subject {subject}: {problem}") from problem
    assert found is not None, "a version has an id"
    return str(found)


def registered(
    spark: SparkSession, column: Column, part: str, schema_id: int, registry: SchemaRegistry
) -> RegisteredDecoding:
    """The decoding of the bytes of a `key` or `value`; the records have their column `headers`.

    Raises PipelineError if the registry does not give the schema.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    from kwire.client.errors import Misuse
    from kwire.pipeline.querying.registry_types import columns_of

    try:
        schema = _schemas(registry.urls, _pairs(registry.properties)).of_frame(
            SchemaFrame(b"", schema_id)
        )
        read, cast = columns_of(spark, schema)
    except (CannotDecode, InvalidSchemaError, Misuse) as problem:
        raise PipelineError(str(problem)) from problem
    # PySpark would else read the types of the function's parameters, and knows few of them.
    decode = f.udf(_decoder(registry, part, schema_id), StringType(), useArrow=False)
    problem_field = StructField(PROBLEM, StringType())
    parsed = f.from_json(
        decode(column, f.col("headers")),
        StructType([*read.fields, problem_field]),
        {"mode": "PERMISSIVE"},
    ).cast(StructType([*cast.fields, problem_field]))

    def why(whole: Column) -> Column:
        """Return a column that says why a record does not match its schema."""
        return f.when(column.isNotNull(), whole[PROBLEM])

    return RegisteredDecoding(parsed, why)


def _decoder(
    registry: SchemaRegistry, part: str, reader_id: int
) -> Callable[[bytes | None, Sequence[Any] | None], str | None]:
    """The function that workers call: the bytes and the headers -> a JSON object."""
    urls, properties = registry.urls, _pairs(registry.properties)

    def decode(raw: bytes | None, headers: Sequence[Any] | None) -> str | None:
        if raw is None:
            return None
        named = [(each["key"], each["value"]) for each in headers or ()]
        return decoded_json(_schemas(urls, properties), bytes(raw), part, named, reader_id)

    return decode


def decoded_json(
    schemas: RegisteredSchemas,
    raw: bytes,
    part: str,
    headers: Sequence[tuple[str, bytes | None]],
    reader_id: int,
) -> str:
    """The JSON object of a record's bytes, or one that says why there is none.

    Raises RegistryAway: such a record may be decoded later, and Spark tries the task again.
    """
    from kwire.registry.client.registered import RegistryAway

    try:
        frame = frame_of(raw, part, headers)
        if frame is None:
            raise CannotDecode("it does not begin with the id of a schema")
        schema = schemas.of_frame(frame)
        reader = None
        if schema.kind is SchemaKind.AVRO and frame.schema_id != reader_id:
            reader = schemas.of_frame(SchemaFrame(b"", reader_id))
            reader = reader if reader.kind is SchemaKind.AVRO else None
        data = schema.decoded(frame.body, reader, SHAPE)
        found = data if isinstance(data, Mapping) else {WRAPPED: data}
        return json.dumps(found, ensure_ascii=False)
    except RegistryAway:
        raise
    except (CannotDecode, RecursionError) as problem:
        return json.dumps({PROBLEM: str(problem) or "the data are nested too deeply"})


@cache
def _schemas(urls: str | None, properties: tuple[tuple[str, str], ...]) -> RegisteredSchemas:
    """The schemas of a registry, which a worker keeps for all its tasks."""
    from kwire.registry.client.configured import client_of
    from kwire.registry.client.registered import RegisteredSchemas

    return RegisteredSchemas(client_of(urls, dict(properties)))


def _pairs(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(properties.items()))
