"""Whether a reader's schema of Protobuf can read what a writer's schema wrote.

The rules are those of Protobuf's "Language Guide", "Updating a Message Type", as Confluent's
registry applies them: which types of fields have the same bytes, that a message must not go away,
and what may move into a oneof.  Types of errors, places and sentences are Confluent's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kwire.registry.schemas.kinds import Incompatibility, Sides
from kwire.registry.schemas.pairs import Pairs, SchemaDifference
from kwire.registry.schemas.protobuf.elements import (
    SCALARS,
    MapType,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
)
from kwire.registry.schemas.protobuf.naming import NamedType, Types

GENERAL_NUMBER: Final = "GENERAL_NUMBER"
STRING_OR_BYTES: Final = "STRING_OR_BYTES"

SCALAR_KINDS: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), GENERAL_NUMBER),
    **dict.fromkeys(("sint32", "sint64"), "SIGNED_NUMBER"),
    **dict.fromkeys(("string", "bytes"), STRING_OR_BYTES),
    **dict.fromkeys(("fixed32", "sfixed32"), "FIXED32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "FIXED64"),
    "float": "FLOAT",
    "double": "DOUBLE",
}
"""Scalars of one kind read each other's bytes.  An enum is a general number."""

SENTENCES: Final = {
    "MESSAGE_REMOVED": (
        "The {reader} schema is missing a MESSAGE type at path '{path}' in the {writer} schema"
    ),
    "FIELD_KIND_CHANGED": (
        "The type of a field at path '{path}' in the {reader} schema does not match the {writer}"
        " schema"
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a SCALAR field at path '{path}' in the {reader} schema does not match its"
        " kind in the {writer} schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a MESSAGE field at path '{path}' in the {reader} schema does not match its"
        " type in the {writer} schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label for a NUMERIC field at path '{path}' in the {reader} schema does not match its"
        " label in the {writer} schema"
    ),
    "REQUIRED_FIELD_ADDED": (
        "A required field  at path '{path}' in the {reader} schema is missing in the {writer}"
        " schema"
    ),
    "REQUIRED_FIELD_REMOVED": (
        "The {reader} schema is missing a required field at path: '{path}' in the {writer} schema"
    ),
    "ONEOF_FIELD_REMOVED": (
        "The {reader} schema is missing a oneof field at path '{path}' in the {writer} schema"
    ),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Multiple fields in the oneof at path '{path}' in the {reader} schema are outside a oneof"
        " in the {writer} schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field in the oneof at path '{path}' in the {reader} schema is outside an existing"
        " oneof in the {writer} schema"
    ),
}
"""Confluent's sentences, also with the two spaces that one of them has."""


def incompatibility(found: SchemaDifference, sides: Sides) -> Incompatibility:
    """A difference in words.  The place has the names of messages and the number of a field."""
    sentence = SENTENCES[found.error_type].format(
        path="#/" + "/".join(found.path), reader=sides.reader, writer=sides.writer
    )
    return Incompatibility(found.error_type, sentence)


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """A message of the same name in both schemas."""

    names: tuple[str, ...]
    """The names of the messages around it, and its own."""
    reader_package: str
    writer_package: str

    def inside(self, name: str) -> MessagePlace:
        """The place of a message inside this one."""
        return MessagePlace((*self.names, name), self.reader_package, self.writer_package)

    @property
    def reader_scope(self) -> tuple[str, ...]:
        """Where the reader's schema looks for the names of types."""
        return (*_parts(self.reader_package), *self.names)

    @property
    def writer_scope(self) -> tuple[str, ...]:
        """Where the writer's schema looks for the names of types."""
        return (*_parts(self.writer_package), *self.names)


class ProtoComparison:
    """One comparison of two schemas."""

    def __init__(self, reader: Types, writer: Types) -> None:
        self._reader = reader
        self._writer = writer
        self._pairs = Pairs()

    def files(self, reader: ProtoFile, writer: ProtoFile) -> list[SchemaDifference]:
        """What the reader cannot read.  Raises TooComplexError."""
        place = MessagePlace((), reader.package, writer.package)
        return self._all_messages(reader.messages, writer.messages, place)

    def _all_messages(
        self, reader: Iterable[ProtoMessage], writer: Iterable[ProtoMessage], place: MessagePlace
    ) -> list[SchemaDifference]:
        """Messages of the same name; none of the writer may be missing."""
        present = {each.name: each for each in reader}
        found: list[SchemaDifference] = []
        for old in writer:
            new = present.get(old.name)
            if new is not None:
                found += self._message(new, old, place.inside(old.name))
            elif old.map_entry is None:
                found.append(SchemaDifference("MESSAGE_REMOVED", (*place.names, old.name)))
        return found

    def _message(
        self, reader: ProtoMessage, writer: ProtoMessage, place: MessagePlace
    ) -> list[SchemaDifference]:
        return self._pairs.differences(
            reader,
            writer,
            lambda: [
                *self._moves(reader, writer, place),
                *self._fields(reader, writer, place),
                *self._all_messages(reader.messages, writer.messages, place),
            ],
        )

    # -- oneofs

    def _moves(
        self, reader: ProtoMessage, writer: ProtoMessage, place: MessagePlace
    ) -> list[SchemaDifference]:
        """Fields that come together in a oneof, of which a writer may have set several."""
        outside = {field.number for field in writer.fields}
        inside = {field.number for oneof in writer.oneofs for field in oneof.fields}
        found = []
        for oneof in reader.oneofs:
            numbers = {field.number for field in oneof.fields}
            path = (*place.names, oneof.name)
            if len(numbers & outside) > 1:
                found.append(SchemaDifference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", path))
            elif numbers & outside and numbers & inside:
                found.append(SchemaDifference("FIELD_MOVED_TO_EXISTING_ONEOF", path))
        return found + self._removed_from_oneofs(reader, writer, place)

    def _removed_from_oneofs(
        self, reader: ProtoMessage, writer: ProtoMessage, place: MessagePlace
    ) -> list[SchemaDifference]:
        """Fields of a oneof that is still there which the reader has nowhere."""
        oneofs = {oneof.name for oneof in reader.oneofs}
        numbers = {field.number for field in reader.all_fields}
        return [
            SchemaDifference("ONEOF_FIELD_REMOVED", (*place.names, oneof.name, str(field.number)))
            for oneof in writer.oneofs
            if oneof.name in oneofs
            for field in oneof.fields
            if field.number not in numbers
        ]

    # -- fields

    def _fields(
        self, reader: ProtoMessage, writer: ProtoMessage, place: MessagePlace
    ) -> list[SchemaDifference]:
        new, old = _by_number(reader.all_fields), _by_number(writer.all_fields)
        shared_oneofs = _shared_oneofs(reader, writer)
        found: list[SchemaDifference] = []
        for number in sorted(new.keys() | old.keys()):
            path = (*place.names, *shared_oneofs.get(number, ()), str(number))
            if number not in new:
                if old[number].label == "required":
                    found.append(SchemaDifference("REQUIRED_FIELD_REMOVED", path))
            elif number not in old:
                if new[number].label == "required":
                    found.append(SchemaDifference("REQUIRED_FIELD_ADDED", path))
            else:
                found += self._field(new[number], old[number], place, path)
        return found

    def _field(
        self, reader: ProtoField, writer: ProtoField, place: MessagePlace, path: tuple[str, ...]
    ) -> list[SchemaDifference]:
        new_map = self._reader.map_type_of(reader, place.reader_scope)
        old_map = self._writer.map_type_of(writer, place.writer_scope)
        is_same_form = (new_map is None) == (old_map is None)
        if not is_same_form or (reader.group is None) != (writer.group is None):
            return [SchemaDifference("FIELD_KIND_CHANGED", path)]
        if new_map is not None and old_map is not None:
            return self._maps(new_map, old_map, place, path)
        if reader.group is not None and writer.group is not None:
            return self._message(reader.group, writer.group, place.inside(writer.group.name))
        found = self._types(reader.type, writer.type, place, path)
        return found or self._labels(reader, writer, place, path)

    def _maps(
        self, reader: MapType, writer: MapType, place: MessagePlace, path: tuple[str, ...]
    ) -> list[SchemaDifference]:
        return [
            *self._types(reader.key, writer.key, place, path),
            *self._types(reader.value, writer.value, place, path),
        ]

    def _types(
        self, reader: str, writer: str, place: MessagePlace, path: tuple[str, ...]
    ) -> list[SchemaDifference]:
        """How two named types differ, of which neither is a map."""
        new = _named(self._reader, reader, place.reader_scope)
        old = _named(self._writer, writer, place.writer_scope)
        new_kind, old_kind = _scalar_kind(reader, new), _scalar_kind(writer, old)
        if (new_kind is None) != (old_kind is None):
            return [SchemaDifference("FIELD_KIND_CHANGED", path)]
        if new_kind != old_kind:
            return [SchemaDifference("FIELD_SCALAR_KIND_CHANGED", path)]
        if new is None or old is None or new_kind is not None:
            return []
        return self._message_types(new, old, path)

    def _message_types(
        self, reader: NamedType, writer: NamedType, path: tuple[str, ...]
    ) -> list[SchemaDifference]:
        """Two messages as types of a field.

        Those of the schemas themselves are compared by their names alone: each of them is compared
        at its own place.
        """
        if reader.local_name != writer.local_name:
            return [SchemaDifference("FIELD_NAMED_TYPE_CHANGED", path)]
        if reader.file is None and writer.file is None:
            return []
        assert isinstance(reader.element, ProtoMessage)
        assert isinstance(writer.element, ProtoMessage)
        names = tuple(reader.local_name.split("."))
        place = MessagePlace(names, reader.package, writer.package)
        found = self._message(reader.element, writer.element, place)
        return [*found, SchemaDifference("FIELD_NAMED_TYPE_CHANGED", path)] if found else []

    def _labels(
        self, reader: ProtoField, writer: ProtoField, place: MessagePlace, path: tuple[str, ...]
    ) -> list[SchemaDifference]:
        """Labels that are written: a list of numbers is packed, and a number is not."""
        if reader.label is None or writer.label is None or reader.label == writer.label:
            return []
        kind = _scalar_kind(reader.type, _named(self._reader, reader.type, place.reader_scope))
        if kind is None or kind == STRING_OR_BYTES:
            return []
        return [SchemaDifference("FIELD_NUMERIC_LABEL_CHANGED", path)]


def _shared_oneofs(reader: ProtoMessage, writer: ProtoMessage) -> dict[int, tuple[str]]:
    """The oneof of each field that is in a oneof of the same name in both messages."""
    new = {field.number: oneof.name for oneof in reader.oneofs for field in oneof.fields}
    old = {field.number: oneof.name for oneof in writer.oneofs for field in oneof.fields}
    return {number: (name,) for number, name in new.items() if old.get(number) == name}


def _by_number(fields: Iterable[ProtoField]) -> dict[int, ProtoField]:
    return {field.number: field for field in fields}


def _named(types: Types, name: str, scope: tuple[str, ...]) -> NamedType | None:
    """The message or enum of a name, None for a scalar."""
    return None if name in SCALARS else types.find(name, scope)


def _scalar_kind(name: str, named: NamedType | None) -> str | None:
    """The kind of a scalar or an enum, None for a message."""
    if named is None:
        return SCALAR_KINDS.get(name)
    return GENERAL_NUMBER if isinstance(named.element, ProtoEnum) else None


def _parts(package: str) -> tuple[str, ...]:
    return tuple(package.split(".")) if package else ()
