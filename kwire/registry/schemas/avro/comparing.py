"""Whether a reader's schema of Avro can read what a writer's schema wrote.

The rules are those of Avro's specification, "Schema Resolution"; types of errors, places and
sentences are those of Avro's Java library and of Confluent's registry.
"""

from __future__ import annotations

from typing import Final

from kwire.registry.schemas.avro.types import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroNamedType,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
)
from kwire.registry.schemas.kinds import Incompatibility, Sides
from kwire.registry.schemas.pairs import Pairs, SchemaDifference, below

PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""What a reader of a type can read besides its own."""

SENTENCES: Final = {
    "FIXED_SIZE_MISMATCH": (
        "The size of FIXED type field at path '{path}' in the {reader} schema does not match with"
        " the {writer} schema"
    ),
    "TYPE_MISMATCH": (
        "The type (path '{path}') of a field in the {reader} schema does not match with the"
        " {writer} schema"
    ),
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": (
        "The {reader} schema is missing enum symbols '{info}' at path '{path}' in the {writer}"
        " schema"
    ),
    "MISSING_UNION_BRANCH": (
        "The {reader} schema is missing a type inside a union field at path '{path}' in the"
        " {writer} schema"
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field '{info}' at path '{path}' in the {reader} schema has no default value and is"
        " missing in the {writer} schema"
    ),
}


def incompatibility(found: SchemaDifference, sides: Sides) -> Incompatibility:
    """A difference in words.  The place is a JSON pointer into the reader's schema."""
    path = "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in found.path)
    sentence = SENTENCES[found.error_type].format(
        path=path, info=found.info, reader=sides.reader, writer=sides.writer
    )
    return Incompatibility(found.error_type, sentence, found.info)


class AvroComparison:
    """One comparison of two schemas."""

    def __init__(self) -> None:
        self._pairs = Pairs()

    def differences(self, reader: AvroType, writer: AvroType) -> list[SchemaDifference]:
        """What the reader cannot read, with the places in its schema.

        Raises TooComplexError.
        """
        if isinstance(reader, AvroPrimitive) and isinstance(writer, AvroPrimitive):
            return _kinds(reader, writer)  # which are compared sooner than they are remembered
        return self._pairs.differences(reader, writer, lambda: self._compare(reader, writer))

    def _compare(self, reader: AvroType, writer: AvroType) -> list[SchemaDifference]:
        match reader, writer:
            case AvroUnion(), AvroUnion():
                return self._unions(reader, writer)
            case _, AvroUnion():  # each branch that may have been written
                found = (self.differences(reader, branch) for branch in writer.branches)
                return [each for branch in found for each in branch]
            case AvroUnion(), _:
                return self._union(reader, writer)
            case AvroArray(), AvroArray():
                return below(self.differences(reader.items, writer.items), "items")
            case AvroMap(), AvroMap():
                return below(self.differences(reader.values, writer.values), "values")
            case AvroRecord(), AvroRecord():
                return [*_names(reader, writer), *self._fields(reader, writer)]
            case AvroEnum(), AvroEnum():
                return [*_names(reader, writer), *_symbols(reader, writer)]
            case AvroFixed(), AvroFixed():
                return [*_names(reader, writer), *_sizes(reader, writer)]
        return _kinds(reader, writer)

    def _unions(self, reader: AvroUnion, writer: AvroUnion) -> list[SchemaDifference]:
        """Each branch that may have been written needs one that reads it."""
        return [
            SchemaDifference(
                "MISSING_UNION_BRANCH",
                (str(index),),
                f"reader union lacking writer type: {_kind(branch)}",
            )
            for index, branch in enumerate(writer.branches)
            if self.differences(reader, branch)
        ]

    def _union(self, reader: AvroUnion, writer: AvroType) -> list[SchemaDifference]:
        if any(not self.differences(branch, writer) for branch in reader.branches):
            return []
        info = f"reader union lacking writer type: {_kind(writer)}"
        return [SchemaDifference("MISSING_UNION_BRANCH", (), info)]

    def _fields(self, reader: AvroRecord, writer: AvroRecord) -> list[SchemaDifference]:
        """Each field of the reader needs one of the writer, or a default."""
        written = {field.name: field for field in writer.fields}
        found: list[SchemaDifference] = []
        for index, field in enumerate(reader.fields):
            source = _source(field, written)
            if source is not None:
                differences = self.differences(field.type, source.type)
                found += below(differences, "fields", str(index), "type")
            elif field.default is NO_DEFAULT:
                path = ("fields", str(index))
                found.append(
                    SchemaDifference("READER_FIELD_MISSING_DEFAULT_VALUE", path, field.name)
                )
        return found


def _kinds(reader: AvroType, writer: AvroType) -> list[SchemaDifference]:
    """Types of which at least one has no parts, or that are of different kinds."""
    if reader.kind == writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ()):
        return []
    info = f"reader type: {_kind(reader)} not compatible with writer type: {_kind(writer)}"
    return [SchemaDifference("TYPE_MISMATCH", (), info)]


def _source(field: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    """The field of the writer that a field of the reader takes its value from."""
    names = (field.name, *field.aliases)
    return next((written[name] for name in names if name in written), None)


def _names(reader: AvroNamedType, writer: AvroNamedType) -> list[SchemaDifference]:
    """Names agree without their namespaces, or by an alias of the reader."""
    is_same = reader.named.name == writer.named.name
    if is_same or writer.named.full in reader.named.aliases:
        return []
    return [SchemaDifference("NAME_MISMATCH", ("name",), f"expected: {writer.named.full}")]


def _symbols(reader: AvroEnum, writer: AvroEnum) -> list[SchemaDifference]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return []
    return [SchemaDifference("MISSING_ENUM_SYMBOLS", ("symbols",), f"[{', '.join(missing)}]")]


def _sizes(reader: AvroFixed, writer: AvroFixed) -> list[SchemaDifference]:
    if reader.size_bytes == writer.size_bytes:
        return []
    info = f"expected: {writer.size_bytes}, found: {reader.size_bytes}"
    return [SchemaDifference("FIXED_SIZE_MISMATCH", ("size",), info)]


def _kind(found: AvroType) -> str:
    """The name of a type in capitals, as Java has it."""
    return "RECORD" if isinstance(found, AvroRecord) else found.kind.upper()
