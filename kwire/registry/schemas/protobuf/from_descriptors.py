"""The elements of a file, from its descriptor.

Clients that have no text of a schema send the descriptor that was compiled into them.  The registry
keeps the text that stands for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.registry.schemas.kinds import InvalidSchemaError
from kwire.registry.schemas.protobuf.descriptors import TYPE_GROUP, options_of
from kwire.registry.schemas.protobuf.elements import (
    LABELS,
    SCALARS,
    NumberRange,
    ProtoEnum,
    ProtoEnumValue,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoOneof,
    ProtoOption,
    ProtoRpc,
    ProtoService,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

SCALAR_NAMES: Final = {number: name for name, number in SCALARS.items()}
LABEL_NAMES: Final = {number: name for name, number in LABELS.items()}
TEXT_TYPES: Final = (SCALARS["string"], SCALARS["bytes"])


def elements_of(descriptor: FileDescriptorProto) -> ProtoFile:
    """The file that a descriptor stands for.  Raises InvalidSchemaError for an edition."""
    if descriptor.syntax not in ("", "proto2", "proto3"):
        raise InvalidSchemaError(
            "the Protobuf schema has an edition; proto2 and proto3 are supported"
        )
    public = {descriptor.dependency[index] for index in descriptor.public_dependency}
    is_proto3 = descriptor.syntax == "proto3"
    return ProtoFile(
        syntax=descriptor.syntax or None,
        package=descriptor.package,
        imports=[each for each in descriptor.dependency if each not in public],
        public_imports=[each for each in descriptor.dependency if each in public],
        messages=[_message(each, is_proto3) for each in descriptor.message_type],
        enums=[_enum(each) for each in descriptor.enum_type],
        options=options_of(descriptor),
        extends=_extends(descriptor.extension, is_proto3),
        services=[
            ProtoService(
                each.name,
                [
                    ProtoRpc(
                        rpc.name,
                        rpc.input_type,
                        rpc.output_type,
                        rpc.client_streaming,
                        rpc.server_streaming,
                        options_of(rpc),
                    )
                    for rpc in each.method
                ],
                options_of(each),
            )
            for each in descriptor.service
        ],
    )


def _message(descriptor: DescriptorProto, is_proto3: bool) -> ProtoMessage:
    found = ProtoMessage(descriptor.name)
    nested = {each.name: _message(each, is_proto3) for each in descriptor.nested_type}
    oneofs = [ProtoOneof(each.name, [], options_of(each)) for each in descriptor.oneof_decl]
    for each in descriptor.field:
        field = _field(each, is_proto3)
        if each.type == TYPE_GROUP:
            field.type = each.type_name.rpartition(".")[2]
            field.group = nested.pop(field.type, None)
        if not each.HasField("oneof_index") or each.proto3_optional:
            found.fields.append(field)
        elif each.oneof_index < len(oneofs):
            field.label = None
            oneofs[each.oneof_index].fields.append(field)
        else:
            raise InvalidSchemaError(f"the field {each.name} is in a oneof that is not there")
    found.oneofs = [each for each in oneofs if each.fields]
    found.messages = list(nested.values())
    found.enums = [_enum(each) for each in descriptor.enum_type]
    found.options = options_of(descriptor)
    found.extends = _extends(descriptor.extension, is_proto3)
    found.extensions = [[NumberRange(r.start, r.end - 1)] for r in descriptor.extension_range]
    found.reserved += ([NumberRange(r.start, r.end - 1)] for r in descriptor.reserved_range)
    found.reserved += ([each] for each in descriptor.reserved_name)
    return found


def _field(descriptor: FieldDescriptorProto, is_proto3: bool) -> ProtoField:
    label: str | None = LABEL_NAMES.get(descriptor.label, "optional")
    if is_proto3 and label == "optional" and not descriptor.proto3_optional:
        label = None
    options = options_of(descriptor)
    if descriptor.HasField("default_value"):
        value = descriptor.default_value
        is_text = descriptor.type in TEXT_TYPES
        options.append(ProtoOption("default", value if is_text else Word(value)))
    if descriptor.json_name and descriptor.json_name != default_json_name(descriptor.name):
        options.append(ProtoOption("json_name", descriptor.json_name))
    type_name = SCALAR_NAMES.get(descriptor.type) or descriptor.type_name
    return ProtoField(descriptor.name, descriptor.number, label, type_name, None, options)


def default_json_name(name: str) -> str:
    """The name of a field in JSON, if no other is written: `lowerCamelCase`."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _extends(fields: Iterable[FieldDescriptorProto], is_proto3: bool) -> list[ProtoExtend]:
    """Extensions by the message that they extend."""
    found: dict[str, ProtoExtend] = {}
    for each in fields:
        extend = found.setdefault(each.extendee, ProtoExtend(each.extendee))
        extend.fields.append(_field(each, is_proto3))
    return list(found.values())


def _enum(descriptor: EnumDescriptorProto) -> ProtoEnum:
    found = ProtoEnum(descriptor.name, options=options_of(descriptor))
    found.values += (
        ProtoEnumValue(each.name, each.number, options_of(each)) for each in descriptor.value
    )
    found.reserved += ([NumberRange(each.start, each.end)] for each in descriptor.reserved_range)
    found.reserved += ([each] for each in descriptor.reserved_name)
    return found
