"""What the registry knows of a schema, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self


class SchemaKind(StrEnum):
    """The types of schemas, as `/schemas/types` lists them."""

    JSON = "JSON"
    PROTOBUF = "PROTOBUF"
    AVRO = "AVRO"


class InvalidSchemaError(Exception):
    """A text is no schema of its kind, or refers to what is not there.

    The message is a sentence for the user. The REST interface answers with error code 42201.
    """


@dataclass(frozen=True, slots=True)
class Reference:
    """One schema named by another: an import of Protobuf, a `$ref`, a named type of Avro."""

    name: str
    """The name by which the schema refers to it."""
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why a reader's schema cannot read what a writer's schema wrote."""

    error_type: str
    """The name that Confluent's registry gives to the reason, such as
    `READER_FIELD_MISSING_DEFAULT_VALUE`."""
    description: str
    """A sentence that names the place in the schema."""


class ParsedSchema(Protocol):
    """A schema that was parsed together with those that it refers to."""

    @property
    def kind(self) -> SchemaKind:
        """The type of the schema."""

    @property
    def canonical(self) -> str:
        """The text under which the registry keeps the schema and compares it with others.

        Two texts that differ only in white space, or in what Confluent's registry passes over,
        have the same one.
        """

    def normalized(self) -> str:
        """The text with `normalize=true`: also the order of what has no order is the same."""

    def incompatibilities(self, writer: Self) -> list[Incompatibility]:
        """Return why this schema cannot read what `writer` wrote; empty if it can.

        Both are of the same kind.
        """
