"""The types of a schema of Avro.

Types refer to each other, also to themselves, and so they are compared by what they are, not by
their content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kwire.registry.schemas.json_text import Json

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class NoDefault:
    """The default of a field that has none; it is different from null."""


NO_DEFAULT: Final = NoDefault()


@dataclass(slots=True, eq=False)
class AvroPrimitive:
    """A type without parts."""

    kind: str
    properties: dict[str, Json]
    """Attributes that the type itself has no use for, such as `logicalType`."""


@dataclass(slots=True, eq=False)
class AvroArray:
    """A list of items."""

    items: AvroType
    properties: dict[str, Json]
    kind: str = "array"


@dataclass(slots=True, eq=False)
class AvroMap:
    """Values by text."""

    values: AvroType
    properties: dict[str, Json]
    kind: str = "map"


@dataclass(slots=True, eq=False)
class AvroUnion:
    """One of several types."""

    branches: list[AvroType]
    kind: str = "union"


@dataclass(slots=True, eq=False)
class AvroName:
    """What all types with a name have."""

    name: str
    """The name without its namespace."""
    namespace: str
    """Empty if there is none."""
    aliases: list[str] = field(default_factory=list)
    """Other names, each with its namespace."""
    doc: str | None = None

    @property
    def full(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    default: Json | NoDefault
    doc: str | None
    order: str
    aliases: list[str]
    properties: dict[str, Json]


@dataclass(slots=True, eq=False)
class AvroRecord:
    """Fields by name.  An error of a protocol is a record too."""

    named: AvroName
    fields: list[AvroField]
    properties: dict[str, Json]
    kind: str = "record"


@dataclass(slots=True, eq=False)
class AvroEnum:
    """One of several symbols."""

    named: AvroName
    symbols: list[str]
    default: str | None
    """The symbol for symbols that a reader does not know."""
    properties: dict[str, Json]
    kind: str = "enum"


@dataclass(slots=True, eq=False)
class AvroFixed:
    """A fixed number of bytes."""

    named: AvroName
    size_bytes: int
    properties: dict[str, Json]
    kind: str = "fixed"


AvroNamedType: TypeAlias = "AvroRecord | AvroEnum | AvroFixed"
AvroType: TypeAlias = "AvroPrimitive | AvroArray | AvroMap | AvroUnion | AvroNamedType"


def type_name(found: AvroType) -> str:
    """The name by which a union tells a type from others."""
    if isinstance(found, AvroRecord | AvroEnum | AvroFixed):
        return found.named.full
    return found.kind
