"""Random values of messages, as JSON in the form of Apache Kafka.

The same seed draws the same values.  The fields are those that a version has.
"""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Callable
from enum import Enum
from typing import Final

from kwire.codecs.json_form import Json
from kwire.codecs.schema_notation import MessageSchema, SchemaField, StructSchema
from kwire.codecs.uuids import uuid_text

CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-é漢😀"
PART: Final = 8
"""The length of the random part that long strings and bytes repeat, so that they compress well."""
EDGE_TEXTS: Final = ("", "x" * 126, "x" * 127, "x" * 128, 'é漢😀\0"')
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
_UUID_BYTES: Final = 16


class Size(Enum):
    """How much a message holds: the most elements of an array, and characters of a string."""

    EMPTY = (0, 0)
    """Every number is zero, and every field that may be null is null."""
    SHORT = (3, 8)
    LONG = (5, 200)
    """Lengths above 127, which take more than one byte where they are compact."""
    EDGE = (1, 0)
    """Every number and length is at an edge."""

    @property
    def elements(self) -> int:
        most: int = self.value[0]
        return most

    @property
    def characters(self) -> int:
        most: int = self.value[1]
        return most


class Drawing:
    """Draws the values of one version of a message."""

    def __init__(self, schema: MessageSchema, version: int, seed: str) -> None:
        """Begin with a seed, to which message and version are added."""
        self._schema = schema
        self._version = version
        self._random = random.Random(f"{seed} {schema.name} {version}")

    def message(self, size: Size) -> Json:
        """The values of a message."""
        return self._struct(self._schema.body, size)

    def _struct(self, struct: StructSchema, size: Size) -> Json:
        return {
            field.json_name: self._field(field, size)
            for field in struct.fields
            if self._version in field.versions
        }

    def _field(self, field: SchemaField, size: Size) -> Json:
        """The value of a field.

        If it may be null, it is null in an EMPTY message, and in every fourth of the others.
        """
        if field.is_nullable(self._version) and (
            size is Size.EMPTY or self._random.random() < 0.25
        ):
            return None
        if not field.is_array:
            return self._value(field, size)
        count = self._random.randint(0, size.elements)
        # Elements are short, so that messages with nested arrays do not become huge.
        inner = Size.SHORT if size is Size.LONG and count > 1 else size
        return [self._value(field, inner) for _ in range(count)]

    def _value(self, field: SchemaField, size: Size) -> Json:
        """One value that is not null."""
        if field.struct is not None:
            return self._struct(field.struct, size)
        if field.type in _BITS:
            return 0 if size is Size.EMPTY else self._integer(field.type, size)
        draw: dict[str, Callable[[Size], Json]] = {
            "bool": lambda size: size is not Size.EMPTY and self._random.random() < 0.5,
            "float64": lambda size: 0.0 if size is Size.EMPTY else self._float(),
            "string": self._string,
            "uuid": self._uuid,
            "bytes": self._bytes,
            "records": self._bytes,
        }
        return draw[field.type](size)

    def _integer(self, type_name: str, size: Size) -> int:
        """0, -1, the lowest or highest number of the type, one from 0 to 127, or any number."""
        bits = _BITS[type_name]
        low, high = (0, (1 << bits) - 1)
        if type_name.startswith("int"):
            low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        if size is Size.EDGE:
            return self._random.choice((low, high))
        chosen = self._random.choice((0, max(low, -1), low, high, None, None, "any"))
        if chosen is None:
            return self._random.randint(0, 127)
        return self._random.randint(low, high) if chosen == "any" else int(chosen)

    def _float(self) -> float:
        return self._random.choice((0.0, -1.5, 1e300, self._random.uniform(-1e6, 1e6)))

    def _string(self, size: Size) -> str:
        if size is Size.EDGE:
            return self._random.choice(EDGE_TEXTS)
        part = "".join(self._random.choice(CHARACTERS) for _ in range(PART))
        return (part * size.characters)[: self._random.randint(0, size.characters)]

    def _uuid(self, size: Size) -> str:
        empty = size is Size.EMPTY or self._random.random() < 0.1
        return uuid_text(bytes(_UUID_BYTES) if empty else self._random.randbytes(_UUID_BYTES))

    def _bytes(self, size: Size) -> str:
        if size is Size.EDGE:
            return b64encode(self._random.choice(EDGE_TEXTS).encode()).decode()
        part = self._random.randbytes(PART)
        data = (part * size.characters)[: self._random.randint(0, size.characters)]
        return b64encode(data).decode()
