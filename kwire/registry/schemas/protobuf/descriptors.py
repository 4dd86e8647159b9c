"""Descriptors of files, and the elements that they stand for.

A descriptor is what a compiler makes of a file.  Clients send it in base64 instead of the text, and
the runtime of Protobuf needs it to read and write messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kwire.registry.schemas.kinds import InvalidSchemaError
from kwire.registry.schemas.protobuf.elements import (
    LABELS,
    SCALARS,
    MapType,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoOption,
    ProtoService,
    Word,
)
from kwire.registry.schemas.protobuf.naming import NamedType, Types

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
        ServiceDescriptorProto,
    )
    from google.protobuf.message import Message

OPTIONAL, REPEATED = LABELS["optional"], LABELS["repeated"]
TYPE_GROUP: Final = 10
TYPE_MESSAGE: Final = 11
TYPE_ENUM: Final = 14
KEY_TYPES: Final = frozenset(SCALARS) - {"double", "float", "bytes"}
NO_OPTIONS: Final = ("default", "json_name")
"""What is written as an option of a field, and has a place of its own in a descriptor."""


def descriptor_of(file: ProtoFile, name: str, types: Types) -> FileDescriptorProto:
    """The descriptor of a file of this name.

    Options of somebody's own are left out: they change nothing about the bytes of messages.  Raises
    InvalidSchemaError if a type is not defined, or a rule of the language is broken.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    found = FileDescriptorProto(name=name)
    if file.package:
        found.package = file.package
    if file.is_proto3:  # compilers do not write proto2
        found.syntax = "proto3"
    found.dependency.extend(dict.fromkeys((*file.imports, *file.public_imports)))
    found.public_dependency.extend(
        list(found.dependency).index(each) for each in dict.fromkeys(file.public_imports)
    )
    maker = _DescriptorMaker(file, types)
    try:
        for message in file.messages:
            maker.message(message, found.message_type.add())
        for enum in file.enums:
            maker.enum(enum, found.enum_type.add())
        for extend in file.extends:
            maker.extend(extend.name, extend.fields, found)
        for service in file.services:
            maker.service(service, found.service.add())
        set_options(file.options, found)
    except (ValueError, TypeError) as error:  # a number or a text that a descriptor cannot have
        raise InvalidSchemaError(f"the Protobuf schema is invalid: {error}") from None
    return found


class _DescriptorMaker:
    """Makes the descriptors of one file."""

    def __init__(self, file: ProtoFile, types: Types) -> None:
        self._is_proto3 = file.is_proto3
        self._types = types
        self._scope = file.package.split(".") if file.package else []

    def full_name(self, name: str) -> str:
        """The full name of a type at this place.  Raises InvalidSchemaError."""
        return self._named(name).full_name

    def _named(self, name: str) -> NamedType:
        """The type that a name means at this place.  Raises InvalidSchemaError."""
        found = self._types.find(name, self._scope)
        if found is None:
            raise InvalidSchemaError(f'the type "{name[:80]}" is not defined')
        return found

    def message(self, message: ProtoMessage, target: DescriptorProto) -> None:
        target.name = message.name
        self._scope.append(message.name)
        maps: list[DescriptorProto] = []
        for field in message.fields:
            self._field(field, target, maps)
        for oneof in message.oneofs:
            index = len(target.oneof_decl)
            target.oneof_decl.add(name=oneof.name)
            for field in oneof.fields:
                if field.label is not None or field.map_type is not None:
                    raise InvalidSchemaError(
                        f"the field {field.name} of a oneof has a label, or is a map"
                    )
                self._field(field, target, maps).oneof_index = index
        for each in message.messages:
            self.message(each, target.nested_type.add())
        for enum in message.enums:
            self.enum(enum, target.enum_type.add())
        for extend in message.extends:
            self.extend(extend.name, extend.fields, target)
        # The messages of maps come last: the index of a message counts those that are written.
        target.nested_type.extend(maps)
        self._ranges(message, target)
        self._mark_optional(target)
        set_options(message.options, target)
        self._scope.pop()

    def _ranges(self, message: ProtoMessage, target: DescriptorProto) -> None:
        for statement in message.extensions:
            for first, last in statement:
                target.extension_range.add(start=first, end=last + 1)
        for reserved in (each for statement in message.reserved for each in statement):
            if isinstance(reserved, str):
                target.reserved_name.append(reserved)
            else:
                target.reserved_range.add(start=reserved.first, end=reserved.last + 1)

    def _mark_optional(self, target: DescriptorProto) -> None:
        """Give each optional field of proto3 a oneof of its own, by which it is known to be set."""
        for field in target.field:
            if field.proto3_optional:
                field.oneof_index = len(target.oneof_decl)
                target.oneof_decl.add(name=f"_{field.name}")

    def _field(
        self, field: ProtoField, message: DescriptorProto, maps: list[DescriptorProto]
    ) -> FieldDescriptorProto:
        target = message.field.add()
        self._fill(field, target)
        if field.map_type is not None:
            if field.label is not None:
                raise InvalidSchemaError(f"the map {field.name} has a label")
            entry = self._map_entry(field, field.map_type)
            maps.append(entry)
            target.type, target.label = TYPE_MESSAGE, REPEATED  # type: ignore[assignment]  # numbers
            target.type_name = f".{'.'.join(self._scope)}.{entry.name}"
        if field.group is not None:
            self.message(field.group, message.nested_type.add())
        return target

    def _fill(self, field: ProtoField, target: FieldDescriptorProto) -> None:
        """Set all of a field that does not depend on its message."""
        if field.label == "required" and self._is_proto3:
            raise InvalidSchemaError(f"the field {field.name} is required, which proto3 has not")
        target.name, target.number = field.name, field.number
        target.label = LABELS[field.label or "optional"]  # type: ignore[assignment]  # a number
        if self._is_proto3 and field.label == "optional":
            target.proto3_optional = True
        if field.map_type is None:
            self._set_type(target, field.type, is_group=field.group is not None)
        for option in field.options:
            if option.name == "default" and isinstance(option.value, str):
                target.default_value = option.value
            elif option.name == "json_name" and isinstance(option.value, str):
                target.json_name = option.value
        set_options(field.options, target)

    def _set_type(self, target: FieldDescriptorProto, name: str, *, is_group: bool = False) -> None:
        """Set the type of a field: a scalar, or the full name of a message or an enum."""
        number = SCALARS.get(name)
        if number is None:
            found = self._named(name)
            is_enum = isinstance(found.element, ProtoEnum)
            number = TYPE_GROUP if is_group else TYPE_ENUM if is_enum else TYPE_MESSAGE
            target.type_name = f".{found.full_name}"
        target.type = number  # type: ignore[assignment]  # a number

    def _map_entry(self, field: ProtoField, types: MapType) -> DescriptorProto:
        """The message of the entries of a map, as compilers name it."""
        from google.protobuf.descriptor_pb2 import DescriptorProto

        if types.key not in KEY_TYPES:
            raise InvalidSchemaError(f"the map {field.name} cannot have keys of {types.key}")
        words = field.name.split("_")
        entry = DescriptorProto(name="".join(w[:1].upper() + w[1:] for w in words) + "Entry")
        entry.options.map_entry = True
        for number, (name, type_name) in enumerate((("key", types.key), ("value", types.value)), 1):
            target = entry.field.add(name=name, number=number)
            target.label = OPTIONAL  # type: ignore[assignment]  # a number
            self._set_type(target, type_name)
        return entry

    def extend(
        self, name: str, fields: Iterable[ProtoField], holder: FileDescriptorProto | DescriptorProto
    ) -> None:
        extendee = f".{self.full_name(name)}"
        for field in fields:
            if field.group is not None or field.map_type is not None:
                raise InvalidSchemaError(f"the extension {field.name} is a group or a map")
            target = holder.extension.add(extendee=extendee)
            self._fill(field, target)

    def service(self, service: ProtoService, target: ServiceDescriptorProto) -> None:
        target.name = service.name
        for rpc in service.rpcs:
            method = target.method.add(
                name=rpc.name,
                input_type=f".{self.full_name(rpc.request)}",
                output_type=f".{self.full_name(rpc.response)}",
            )
            if rpc.streams_request:
                method.client_streaming = True
            if rpc.streams_response:
                method.server_streaming = True
            set_options(rpc.options, method)
        set_options(service.options, target)

    def enum(self, enum: ProtoEnum, target: EnumDescriptorProto) -> None:
        target.name = enum.name
        for value in enum.values:
            set_options(value.options, target.value.add(name=value.name, number=value.number))
        for reserved in (each for statement in enum.reserved for each in statement):
            if isinstance(reserved, str):
                target.reserved_name.append(reserved)
            else:
                target.reserved_range.add(start=reserved.first, end=reserved.last)
        set_options(enum.options, target)


def set_options(options: Iterable[ProtoOption], target: Message) -> None:
    """Set those options that Protobuf itself knows."""
    for option in options:
        holder: Any = target
        known = holder.options.DESCRIPTOR.fields_by_name.get(option.name)
        if known is None or option.name in NO_OPTIONS or not isinstance(option.value, str):
            continue
        if known.message_type is not None or known.is_repeated:
            continue
        setattr(holder.options, option.name, _option_value(option.value, known))


def _option_value(text: str, field: Any) -> object:  # noqa: ANN401 - a descriptor of C
    """The value of an option that Protobuf knows.  Raises ValueError."""
    if field.enum_type is not None:
        if text not in field.enum_type.values_by_name:
            raise ValueError(f"{text[:60]!r} is no value of the option {field.name}")
        return field.enum_type.values_by_name[text].number
    if field.type == SCALARS["bool"]:
        if text not in ("true", "false"):
            raise ValueError(f"{text[:60]!r} is no value of the option {field.name}")
        return text == "true"
    return text if field.type == SCALARS["string"] else int(text)


def options_of(target: Message) -> list[ProtoOption]:
    """The options of a descriptor that Protobuf itself knows, in the order of their numbers."""
    holder: Any = target
    if not target.HasField("options"):
        return []
    return [
        ProtoOption(field.name, _value_text(value, field))
        for field, value in holder.options.ListFields()
        if not field.is_extension and field.message_type is None and not field.is_repeated
    ]


def _value_text(value: object, field: Any) -> str:  # noqa: ANN401 - a descriptor of C
    if field.enum_type is not None:
        return Word(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return Word("true" if value else "false")
    return value if isinstance(value, str) else Word(value)
