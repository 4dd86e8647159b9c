"""The tables of pairs of schemas, each with the types of errors that are expected and its source.

A line is what a new version of a schema, the reader, and an earlier one, the writer, say to level
BACKWARD.  The lines were written from the sources that they name, not from what the code answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kwire.registry.schemas.kinds import ParsedSchema, SchemaKind
from kwire.registry.schemas.parsing import parse

FILES = {
    SchemaKind.AVRO: "avro_pairs.jsonl",
    SchemaKind.PROTOBUF: "protobuf_pairs.jsonl",
    SchemaKind.JSON: "json_pairs.jsonl",
}
NO_REFERENCES: Mapping[str, str] = {}


class Pair(NamedTuple):
    """A line of a table."""

    name: str
    reader: ParsedSchema
    writer: ParsedSchema
    errors: list[str]
    source: str


def pairs(kind: SchemaKind) -> list[Pair]:
    """The table of a kind."""
    lines = (Path(__file__).parent / FILES[kind]).read_text().splitlines()
    return [_pair(kind, json.loads(line)) for line in lines]


def _pair(kind: SchemaKind, line: dict[str, Any]) -> Pair:
    def schema(side: str) -> ParsedSchema:
        text = line[side] if kind is SchemaKind.PROTOBUF else json.dumps(line[side])
        return parse(kind, text, line.get(f"{side}_references", NO_REFERENCES))

    reader, writer = schema("reader"), schema("writer")
    return Pair(line["name"], reader, writer, sorted(line["errors"]), line["source"])


def avro(value: object, **references: str) -> ParsedSchema:
    """A schema of Avro from JSON."""
    return parse(SchemaKind.AVRO, json.dumps(value), references)


def json_schema(value: object, **references: str) -> ParsedSchema:
    """A schema of JSON Schema from JSON."""
    return parse(SchemaKind.JSON, json.dumps(value), references)


def protobuf(text: str, references: Mapping[str, str] = NO_REFERENCES) -> ParsedSchema:
    """A schema of Protobuf."""
    return parse(SchemaKind.PROTOBUF, text, references)
