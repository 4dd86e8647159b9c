"""How a record says which schema it has: by an id before its bytes, or by a GUID in a header.

    prefix   0 (one byte), id (four bytes, big-endian), body
    header   `__value_schema_id` or `__key_schema_id`: 1 (one byte), GUID (16 bytes)

The body of a Protobuf record begins with the indexes of its message; in the header form they are
at the end of the header.  Confluent's documentation, "Wire format" of serializers.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAGIC: Final = 0
PREFIX_BYTES: Final = 5
MAGIC_OF_GUID: Final = 1
GUID_BYTES: Final = 16
HEADERS: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""The header that has the GUID of a record's key or value."""


@dataclass(frozen=True, slots=True)
class SchemaFrame:
    """The bytes of a key or value, and the id or the GUID of their schema."""

    body: bytes
    """What `RecordSchema.decoded` takes."""
    schema_id: int | None = None
    guid: str | None = None

    @property
    def name(self) -> str:
        """The id or the GUID, for messages."""
        return str(self.guid if self.schema_id is None else self.schema_id)


def framed(schema_id: int, body: bytes) -> bytes:
    """The bytes of a key or value after the id of their schema."""
    return bytes((MAGIC,)) + schema_id.to_bytes(PREFIX_BYTES - 1) + body


def is_framed(raw: bytes) -> bool:
    """Whether bytes begin as the serializers of a registry begin."""
    return len(raw) >= PREFIX_BYTES and raw[0] == MAGIC


def frame_of(
    raw: bytes, part: str = "value", headers: Sequence[tuple[str, bytes | None]] = ()
) -> SchemaFrame | None:
    """The frame of a `key` or `value`, or None if it has none.

    A header wins: bytes without a prefix may begin with any byte.
    """
    for name, value in headers:
        if name == HEADERS[part] and value is not None and len(value) > GUID_BYTES:
            if value[0] != MAGIC_OF_GUID:
                continue
            guid = uuid.UUID(bytes=bytes(value[1 : 1 + GUID_BYTES]))
            return SchemaFrame(bytes(value[1 + GUID_BYTES :]) + raw, guid=str(guid))
    if not is_framed(raw):
        return None
    return SchemaFrame(raw[PREFIX_BYTES:], int.from_bytes(raw[1:PREFIX_BYTES]))


def guid_header(guid: str, part: str = "value", indexes: bytes = b"") -> tuple[str, bytes]:
    """The header for a GUID.  `indexes` are those of a Protobuf message."""
    return HEADERS[part], bytes((MAGIC_OF_GUID,)) + uuid.UUID(guid).bytes + indexes
