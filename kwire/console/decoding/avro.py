"""Avro data by their schema."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from kwire.console.decoding.problem import CannotDecode
from kwire.console.filtering.facts import Data

AvroSchema: TypeAlias = "dict[str, Any] | list[Any] | str"


def avro_schema(text: str, named: dict[str, Any] | None = None) -> AvroSchema:
    """The parsed schema of a JSON text.  `named` has types of other schemas, and gets those of
    this one.  Raises CannotDecode."""
    import fastavro

    try:
        found: AvroSchema = fastavro.parse_schema(
            json.loads(text), named_schemas={} if named is None else named
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CannotDecode(f"the Avro schema is invalid: {error}") from None
    except fastavro.schema.SchemaParseException as error:
        raise CannotDecode(f"the Avro schema is invalid: {error}") from None
    return found


def avro_data(raw: bytes, schema: AvroSchema) -> Data:
    """The data of bytes that a schema describes.  Raises CannotDecode if they do not agree."""
    import fastavro

    stream = io.BytesIO(raw)
    try:
        found = fastavro.schemaless_reader(stream, schema, None)
    except Exception as error:
        # The library's readers raise what their C code runs into: EOFError, struct.error,
        # IndexError, UnicodeDecodeError, OverflowError, MemoryError and others.
        raise CannotDecode(
            f"not Avro data of the schema: {error or type(error).__name__}"
        ) from None
    if rest := len(raw) - stream.tell():
        raise CannotDecode(f"not Avro data of the schema: {rest} bytes are left over")
    try:
        return shown(found)
    except RecursionError:
        raise CannotDecode("the data are nested too deeply") from None


def shown(value: object) -> Data:
    """Decoded data with the types that JSON has: bytes become hex, times and decimals text."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Mapping):
        return {str(name): shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    return str(value)
