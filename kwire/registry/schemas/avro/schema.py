"""A schema of Avro, with those that it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.registry.schemas.avro.comparing import AvroComparison, incompatibility
from kwire.registry.schemas.avro.printing import AvroPrinter
from kwire.registry.schemas.avro.reading import AvroReader
from kwire.registry.schemas.json_text import compact, document
from kwire.registry.schemas.kinds import (
    READER_AND_WRITER,
    Incompatibility,
    SchemaKind,
    Sides,
    reading_reference,
)
from kwire.registry.schemas.pairs import TOO_COMPLEX, TooComplexError


class AvroSchema:
    """A parsed schema.  Threads may share it."""

    kind: Final = SchemaKind.AVRO

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        """Raises InvalidSchemaError.  References define names, whatever they are called by."""
        reader = AvroReader()
        for name, reference in references.items():
            with reading_reference(name):
                reader.read(document(reference))
        self._referred = frozenset(reader.names)
        self.root: Final = reader.read(document(text))
        """The type that the text describes."""
        self.canonical: Final = compact(AvroPrinter(self._referred).json(self.root))

    def normalized(self) -> str:
        """The canonical text with attributes and aliases in order."""
        return compact(AvroPrinter(self._referred, is_normal=True).json(self.root))

    def formatted(self, name: str) -> str:
        """The text; with the types of its references inside it if `name` is `resolved`."""
        return self.resolved() if name == "resolved" else self.canonical

    def resolved(self) -> str:
        """The text with the types of its references inside it."""
        return compact(AvroPrinter().json(self.root))

    def incompatibilities(
        self, writer: AvroSchema, sides: Sides = READER_AND_WRITER
    ) -> list[Incompatibility]:
        """Why this schema cannot read what `writer` wrote; empty if it can."""
        try:
            found = AvroComparison().differences(self.root, writer.root)
        except TooComplexError:
            return [TOO_COMPLEX]
        return [incompatibility(each, sides) for each in found]
