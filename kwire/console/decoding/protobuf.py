"""Protobuf messages by their descriptors, or by their field numbers if there is no schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kwire.console.decoding.avro import shown
from kwire.console.decoding.problem import CannotDecode
from kwire.console.filtering.facts import Data

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

WELL_KNOWN: Final = (
    "any", "descriptor", "duration", "empty", "field_mask", "source_context", "struct",
    "timestamp", "wrappers", "type", "api",
)  # fmt: skip
"""The files `google/protobuf/NAME.proto`, which schemas import without bringing them.  A file comes
after its own imports."""
NESTED_MAX: Final = 20
VARINT_BYTES_MAX: Final = 10


@cache
def well_known() -> dict[str, bytes]:
    """The serialized descriptor of each well-known file, by its name."""
    from importlib import import_module

    found = {}
    for name in WELL_KNOWN:
        module = import_module(f"google.protobuf.{name}_pb2")
        found[f"google/protobuf/{name}.proto"] = module.DESCRIPTOR.serialized_pb
    return found


def file_descriptor(serialized: bytes, name: str | None = None) -> FileDescriptorProto:
    """The descriptor of a file, under another name if one is given.  Raises CannotDecode."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        found = FileDescriptorProto.FromString(serialized)
    except DecodeError as error:
        raise CannotDecode(f"the Protobuf schema is invalid: {error}") from None
    if name is not None:
        found.name = name
    return found


def descriptors_of(files: Iterable[FileDescriptorProto]) -> list[Any]:
    """The file descriptors of files, in a pool of their own.  A file comes after its imports.

    Raises CannotDecode if a file is invalid, or an import is missing.
    """
    from google.protobuf.descriptor_pool import DescriptorPool

    pool, given = DescriptorPool(), list(files)
    names = {each.name for each in given}
    try:
        for name, serialized in well_known().items():
            if name not in names:
                pool.AddSerializedFile(serialized)
        for each in given:
            pool.AddSerializedFile(each.SerializeToString())
        return [pool.FindFileByName(each.name) for each in given]
    except (TypeError, KeyError, ValueError) as error:
        raise CannotDecode(f"the Protobuf schema is invalid: {error}") from None


def message_at(file: Any, indexes: list[int]) -> Descriptor:  # noqa: ANN401 - a descriptor of C
    """The message of a file that a list of indexes names: one for each level of nesting."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    # Only the schema as it is written has the messages in their order.
    written = FileDescriptorProto.FromString(file.serialized_pb)
    names, level = [written.package] if written.package else [], written.message_type
    for index in indexes:
        if not 0 <= index < len(level):
            raise CannotDecode(f"the Protobuf schema has no message {indexes}")
        names.append(level[index].name)
        level = level[index].nested_type
    return file.pool.FindMessageTypeByName(".".join(names))  # type: ignore[no-any-return]  # of C


def message_data(raw: bytes, descriptor: Descriptor) -> Data:
    """The fields of a message by name.  Raises CannotDecode."""
    from google.protobuf.json_format import MessageToDict, SerializeToJsonError
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    try:
        message = GetMessageClass(descriptor).FromString(raw)
        return shown(MessageToDict(message, preserving_proto_field_name=True))
    except (DecodeError, SerializeToJsonError, ValueError, TypeError, RecursionError) as error:
        raise CannotDecode(f"not a Protobuf message of the schema: {error}") from None


def varint_at(raw: bytes, position: int) -> tuple[int, int]:
    """The number of a varint, and where it ends.  Raises CannotDecode."""
    number = 0
    for count in range(VARINT_BYTES_MAX):
        if position + count >= len(raw):
            break
        byte = raw[position + count]
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number, position + count + 1
    raise CannotDecode("not Protobuf: a number has no end")


def message_indexes(raw: bytes) -> tuple[list[int], int]:
    """The indexes of the message that a record of a registry's serializer has, and their length.

    They are zigzag varints, the first of which is their number; one byte 0 stands for [0].
    """
    count, position = _zigzag_at(raw, 0)
    if not 0 <= count <= NESTED_MAX:
        raise CannotDecode("not a Protobuf record of a registry's serializer")
    indexes = []
    for _ in range(count):
        index, position = _zigzag_at(raw, position)
        indexes.append(index)
    return indexes or [0], position


def _zigzag_at(raw: bytes, position: int) -> tuple[int, int]:
    number, end = varint_at(raw, position)
    return (number >> 1) ^ -(number & 1), end


def fields_of(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a message without a schema.  Raises CannotDecode."""
    position = 0
    while position < len(raw):
        tag, position = varint_at(raw, position)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise CannotDecode("not Protobuf: a field has the number 0")
        if kind == 0:
            value, position = varint_at(raw, position)
            yield number, value
            continue
        if kind == 2:
            size_bytes, position = varint_at(raw, position)
        elif kind in (1, 5):
            size_bytes = 8 if kind == 1 else 4
        else:
            raise CannotDecode(f"not Protobuf: a field has the type {kind}")
        if position + size_bytes > len(raw):
            raise CannotDecode("not Protobuf: a field has no end")
        content = raw[position : position + size_bytes]
        position += size_bytes
        yield number, content if kind == 2 else int.from_bytes(content, "little")


def schemaless_data(fields: Iterable[tuple[int, int | bytes]], depth: int = 0) -> Data:
    """The fields by number.  Bytes are a message or text if they look like it, else hex."""
    found: dict[str, Data] = {}
    for number, value in fields:
        shown_value = _looked_at(value, depth) if isinstance(value, bytes) else value
        name = str(number)
        before = found.get(name)
        if name not in found:
            found[name] = shown_value
        elif isinstance(before, list):
            before.append(shown_value)
        else:
            found[name] = [before, shown_value]
    return found


def _looked_at(raw: bytes, depth: int) -> Data:
    from kwire.console.decoding.plain import is_text

    if is_text(raw):
        return raw.decode()
    if depth < NESTED_MAX:
        try:
            return schemaless_data(list(fields_of(raw)), depth + 1)
        except CannotDecode:
            return f"0x{raw.hex()}"
    return f"0x{raw.hex()}"
