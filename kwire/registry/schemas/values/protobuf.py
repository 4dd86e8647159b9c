"""Protobuf messages by their descriptors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kwire.registry.schemas.protobuf.schema import ProtobufSchema
from kwire.registry.schemas.values.data import PLAIN, Data, Shape, shown
from kwire.registry.schemas.values.problem import CannotDecode, CannotEncode

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from kwire.registry.schemas.protobuf.elements import ProtoMessage

NESTED_MAX: Final = 20
VARINT_BYTES_MAX: Final = 10


def message_data(raw: bytes, descriptor: Descriptor, shape: Shape = PLAIN) -> Data:
    """The fields of a message by name, as Protobuf's JSON has them.  Raises CannotDecode."""
    from google.protobuf.json_format import MessageToDict, SerializeToJsonError
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    try:
        message = GetMessageClass(descriptor).FromString(raw)
        found = MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=shape.with_defaults,
            descriptor_pool=descriptor.file.pool,
        )
        return shown(found)
    except (DecodeError, SerializeToJsonError, ValueError, TypeError, RecursionError) as error:
        raise CannotDecode(f"not a Protobuf message of the schema: {error}") from None


def messages_of(schema: ProtobufSchema) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(full name, indexes) of each message of a schema, the outer ones first."""
    package = f"{schema.file.package}." if schema.file.package else ""
    waiting: list[tuple[str, tuple[int, ...], ProtoMessage]] = [
        (f"{package}{each.name}", (index,), each) for index, each in enumerate(schema.file.messages)
    ]
    while waiting:
        name, indexes, message = waiting.pop(0)
        yield name, indexes
        waiting += [
            (f"{name}.{each.name}", (*indexes, index), each)
            for index, each in enumerate(message.messages)
        ]


def indexes_of(schema: ProtobufSchema, name: str) -> tuple[int, ...]:
    """The indexes of a message by its full name, or by its name without the package.

    Without a name, those of the first message.  Raises CannotEncode.
    """
    found = dict(messages_of(schema))
    if not found:
        raise CannotEncode("the Protobuf schema has no message")
    if not name:
        return next(iter(found.values()))
    for each in (name, f"{schema.file.package}.{name}"):
        if each in found:
            return found[each]
    raise CannotEncode(f"the Protobuf schema has no message {name!r}: it has {', '.join(found)}")


def message_bytes(data: Data, descriptor: Descriptor) -> bytes:
    """The bytes of a message, from data as Protobuf's JSON has them.  Raises CannotEncode."""
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import EncodeError
    from google.protobuf.message_factory import GetMessageClass

    if not isinstance(data, Mapping):
        raise CannotEncode(f"not an object of the message {descriptor.full_name}")
    message = GetMessageClass(descriptor)()
    try:
        ParseDict(dict(data), message, descriptor_pool=descriptor.file.pool)
        return message.SerializeToString(deterministic=True)
    except RecursionError:
        raise CannotEncode("the data are nested too deeply") from None
    except (ParseError, EncodeError, ValueError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())  # the library's message has several lines
        raise CannotEncode(f"not data of the message {descriptor.full_name}: {why}") from None


def indexes_bytes(indexes: Sequence[int]) -> bytes:
    """The indexes as `message_indexes` reads them."""
    if tuple(indexes) == (0,):
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def _zigzag(number: int) -> bytes:
    """A number from 0 on as a zigzag varint."""
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


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
