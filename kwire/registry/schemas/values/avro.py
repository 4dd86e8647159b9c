"""Avro data by their schema."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kwire.registry.schemas.kinds import InvalidSchemaError
from kwire.registry.schemas.values.avro_defaults import with_read_defaults
from kwire.registry.schemas.values.avro_values import AvroValues
from kwire.registry.schemas.values.data import PLAIN, Data, Shape, shown
from kwire.registry.schemas.values.problem import CannotDecode, CannotEncode

AvroSchema: TypeAlias = "dict[str, Any] | list[Any] | str"


@dataclass(frozen=True)
class ParsedAvro:
    """An Avro schema as fastavro takes it, and the named types that it uses."""

    schema: AvroSchema
    named: dict[str, Any] = field(default_factory=dict)
    """Full name -> schema of a record, enum or fixed type."""

    _readers: dict[bool, AvroSchema] = field(default_factory=dict, compare=False)

    def as_reader(self, *, names_branches: bool) -> AvroSchema:
        """The schema by which others' bytes are read.  Raises CannotDecode for a bad default."""
        if names_branches not in self._readers:
            try:
                self._readers[names_branches] = with_read_defaults(
                    self.schema, self.named, names_branches=names_branches
                )
            except CannotEncode as problem:
                raise CannotDecode(f"the default of the reader's schema: {problem}") from None
        return self._readers[names_branches]

    @property
    def name(self) -> str | None:
        """The full name of the record, enum or fixed type; None for any other schema."""
        if isinstance(self.schema, dict):
            found = self.schema.get("name")
            return found if isinstance(found, str) else None
        return self.schema if isinstance(self.schema, str) and self.schema in self.named else None


def parsed_avro(text: str, references: Iterable[str] = ()) -> ParsedAvro:
    """The schema of a JSON text.  `references` are the texts of schemas whose types it uses, those
    first that others need.  Raises InvalidSchemaError."""
    named: dict[str, Any] = {}
    for each in references:
        _parsed(each, named)
    return ParsedAvro(_parsed(text, named), named)


def _parsed(text: str, named: dict[str, Any]) -> AvroSchema:
    """Parse one text.  `named` has the types of earlier texts, and gets those of this one."""
    import fastavro

    try:
        found: AvroSchema = fastavro.parse_schema(json.loads(text), named_schemas=named)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidSchemaError(f"the Avro schema is invalid: {error}") from None
    except fastavro.schema.SchemaParseException as error:
        raise InvalidSchemaError(f"the Avro schema is invalid: {error}") from None
    return found


def avro_data(
    raw: bytes, writer: ParsedAvro, reader: ParsedAvro | None = None, shape: Shape = PLAIN
) -> Data:
    """The data of bytes that a schema describes, as another schema sees them if one is given.

    Raises CannotDecode if bytes and schema do not agree.
    """
    import fastavro

    stream = io.BytesIO(raw)
    names = shape.names_branches
    as_read = None if reader is None else reader.as_reader(names_branches=names)
    try:
        found = fastavro.schemaless_reader(
            stream,
            writer.schema,
            as_read,
            return_named_type=names,
            return_named_type_override=names,
        )
    except Exception as error:
        # The library's readers raise what their C code runs into: EOFError, struct.error,
        # IndexError, UnicodeDecodeError, OverflowError, MemoryError and others.
        raise CannotDecode(
            f"not Avro data of the schema: {error or type(error).__name__}"
        ) from None
    if rest := len(raw) - stream.tell():
        raise CannotDecode(f"not Avro data of the schema: {rest} bytes are left over")
    try:
        return shown(found, as_base64=shape.as_base64)
    except RecursionError:
        raise CannotDecode("the data are nested too deeply") from None


def avro_bytes(data: Data, parsed: ParsedAvro) -> bytes:
    """The Avro bytes of data.  Raises CannotEncode if they are not of the schema.

    What `avro_data` returns is accepted, and so is Avro's own JSON: an object with the name of a
    branch for the value of a union, and bytes as a text of the characters U+0000 to U+00FF.
    """
    import fastavro

    stream = io.BytesIO()
    try:
        value = AvroValues(parsed.named).value(data, parsed.schema, "$")
        fastavro.schemaless_writer(stream, parsed.schema, value)
    except RecursionError:
        raise CannotEncode("the data are nested too deeply") from None
    except (ValueError, TypeError, OverflowError, KeyError, AttributeError) as error:
        # What `AvroValues` lets through and the library does not: a decimal with more digits than
        # the schema has, a time that is out of range.
        raise CannotEncode(f"not data of the Avro schema: {error}") from None
    return stream.getvalue()
