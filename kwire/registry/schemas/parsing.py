"""A text becomes a schema: the one way into this room.

Texts come from anybody, so that all of it takes time and memory in proportion to the text, and the
text has a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.registry.schemas.avro.schema import AvroSchema
from kwire.registry.schemas.json_schema.schema import JsonSchema
from kwire.registry.schemas.kinds import InvalidSchemaError, ParsedSchema, SchemaKind
from kwire.registry.schemas.protobuf.schema import ProtobufSchema

TEXT_BYTES_MAX: Final = 1_000_000
"""A record of the topic `_schemas` holds no more: brokers refuse batches above 1,048,588 bytes
(`max.message.bytes`)."""
REFERENCES_MAX: Final = 1_000
REFERENCES_BYTES_MAX: Final = 5_000_000
"""All schemas that one refers to, directly or not."""


def parse(kind: SchemaKind, text: str, references: Mapping[str, str]) -> ParsedSchema:
    """The schema of a text.

    `references` has the texts of all schemas that it refers to, directly or not, by the name by
    which they are referred to; one that others need comes before them.  Raises InvalidSchemaError
    if the text is no schema, is too long or too deep, or names what is not among the references.
    """
    if (size := _size_bytes(text)) > TEXT_BYTES_MAX:
        raise InvalidSchemaError(
            f"the schema has {size:,} bytes, more than {TEXT_BYTES_MAX:,} are not accepted"
        )
    if len(references) > REFERENCES_MAX:
        raise InvalidSchemaError(f"the schema refers to more than {REFERENCES_MAX:,} schemas")
    if sum(map(_size_bytes, references.values())) > REFERENCES_BYTES_MAX:
        raise InvalidSchemaError(
            f"the schemas that it refers to have more than {REFERENCES_BYTES_MAX:,} bytes"
        )
    if not text.strip():
        raise InvalidSchemaError("the schema is empty")
    match kind:
        case SchemaKind.AVRO:
            schema: ParsedSchema = AvroSchema(text, references)
        case SchemaKind.PROTOBUF:
            schema = ProtobufSchema(text, references)
        case SchemaKind.JSON:
            schema = JsonSchema(text, references)
    _size_bytes(schema.canonical)  # an escape of JSON may stand for half of a character
    return schema


def _size_bytes(text: str) -> int:
    """The size of a text.  Raises InvalidSchemaError if it has half of a surrogate pair."""
    if len(text) > REFERENCES_BYTES_MAX:
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidSchemaError("the schema has a character that UTF-8 cannot write") from None
