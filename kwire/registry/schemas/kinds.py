"""What the registry knows of a schema, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, Self


class SchemaKind(StrEnum):
    """The types of schemas, as `/schemas/types` lists them."""

    JSON = "JSON"
    PROTOBUF = "PROTOBUF"
    AVRO = "AVRO"


class InvalidSchemaError(Exception):
    """A text is no schema of its kind, or refers to what is not there.

    The message is a sentence for the user. The REST interface answers with error code 42201.
    """


@contextmanager
def reading_reference(name: str) -> Iterator[None]:
    """Say in an InvalidSchemaError which reference is invalid."""
    try:
        yield
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"the reference {name} is invalid: {error}") from None


@dataclass(frozen=True, slots=True)
class Reference:
    """One schema named by another: an import of Protobuf, a `$ref`, a named type of Avro."""

    name: str
    """The name by which the schema refers to it."""
    subject: str
    version: int


class Sides(NamedTuple):
    """What a sentence calls the two schemas of a comparison."""

    reader: str
    writer: str


READER_AND_WRITER: Final = Sides("reader", "writer")


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why a reader's schema cannot read what a writer's schema wrote."""

    error_type: str
    """The name that Confluent's registry gives to the reason, such as
    `READER_FIELD_MISSING_DEFAULT_VALUE`; empty if it has only a sentence."""
    description: str
    """A sentence that names the place in the schema."""
    additional_info: str | None = None
    """What Avro's check says besides, such as the two types; the other kinds say nothing."""

    @property
    def message(self) -> str:
        """The reason as Confluent's registry writes it in the body of an answer."""
        if not self.error_type:
            return self.description
        if self.additional_info is None:
            return f'{{errorType:"{self.error_type}", description:"{self.description}"}}'
        return (
            f"{{errorType:'{self.error_type}', description:'{self.description}',"
            f" additionalInfo:'{self.additional_info}'}}"
        )


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

    def formatted(self, name: str) -> str:
        """The text in the format of this name, as requests ask for it with `format=`.

        Avro has `resolved`, with the types of its references inside, and Protobuf `serialized`, a
        descriptor in base64.  Any other name stands for the canonical text.
        """

    def incompatibilities(
        self, writer: Self, sides: Sides = READER_AND_WRITER
    ) -> list[Incompatibility]:
        """Return why this schema cannot read what `writer` wrote; empty if it can.

        Both are of the same kind.  The sentences call them by the names of `sides`.
        """
