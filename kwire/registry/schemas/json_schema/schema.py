"""A schema of JSON Schema, with those that it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.registry.schemas.json_schema.comparing import JsonSchemaComparison
from kwire.registry.schemas.json_schema.parts import JsonSchemaPart
from kwire.registry.schemas.json_schema.reading import JsonSchemaReader
from kwire.registry.schemas.json_schema.resolving import Documents
from kwire.registry.schemas.json_schema.sentences import incompatibility
from kwire.registry.schemas.json_text import Json, compact, document
from kwire.registry.schemas.kinds import READER_AND_WRITER, Incompatibility, SchemaKind, Sides
from kwire.registry.schemas.pairs import TOO_COMPLEX, TooComplexError


class JsonSchema:
    """A parsed schema.  Threads may share it."""

    kind: Final = SchemaKind.JSON

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        """Raises InvalidSchemaError."""
        self.document: Final[Json] = document(text)
        """The schema as JSON."""
        self.root: Final[JsonSchemaPart] = JsonSchemaReader(
            Documents(self.document, references)
        ).read()
        """What the schema demands."""
        self.canonical: Final = compact(self.document)

    def normalized(self) -> str:
        """The text with the keys of all objects in order."""
        return compact(self.document, is_sorted=True)

    def formatted(self, name: str) -> str:
        """The canonical text, whatever the format."""
        return self.canonical

    def incompatibilities(
        self, writer: JsonSchema, sides: Sides = READER_AND_WRITER
    ) -> list[Incompatibility]:
        """Why this schema does not accept what `writer` allowed; empty if it does."""
        try:
            found = JsonSchemaComparison().differences(self.root, writer.root)
        except TooComplexError:
            return [TOO_COMPLEX]
        return [incompatibility(each, sides) for each in found]
