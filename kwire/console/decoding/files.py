"""Schemas in files, for clusters without a registry: `TOPIC[:key]=FILE[#MESSAGE]`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.registry.schemas.kinds import InvalidSchemaError
from kwire.registry.schemas.protobuf.well_known import runtime_descriptor
from kwire.registry.schemas.values.avro import ParsedAvro, parsed_avro

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

AVRO_SUFFIX: Final = ".avsc"
DESCRIPTOR_SUFFIXES: Final = (".desc", ".pb", ".protoset", ".binpb")


@dataclass(frozen=True)
class SchemaFile:
    """The schema in a file: of Avro, or a Protobuf message."""

    name: str
    avro: ParsedAvro | None = None
    message: Descriptor | None = None


def schema_files(given: Iterable[str]) -> dict[tuple[str, str], SchemaFile]:
    """The schemas by topic and part, from texts like `orders=order.avsc`.

    Raises ValueError for a mistake in a text or a file, and OSError if a file cannot be read.
    """
    found = {}
    for text in given:
        target, equals, source = text.partition("=")
        topic, colon, part = target.partition(":")
        if not (topic and equals and source) or (colon and part not in ("key", "value")):
            raise ValueError(f"{text!r} is not like TOPIC=FILE or TOPIC:key=FILE")
        try:
            found[topic, part or "value"] = schema_file(source)
        except InvalidSchemaError as problem:
            raise ValueError(f"{source}: {problem}") from None
    return found


def schema_file(source: str) -> SchemaFile:
    """The schema of `FILE` or `FILE#MESSAGE`.  Raises InvalidSchemaError, ValueError, OSError."""
    name, _, message = source.partition("#")
    path = Path(name)
    if path.suffix == AVRO_SUFFIX:
        return SchemaFile(path.name, avro=parsed_avro(path.read_text("utf-8")))
    if path.suffix not in DESCRIPTOR_SUFFIXES:
        raise ValueError(
            f"{name} is neither {AVRO_SUFFIX} nor a descriptor set of protoc "
            f"({', '.join(DESCRIPTOR_SUFFIXES)})"
        )
    return SchemaFile(path.name, message=message_of(path.read_bytes(), message))


def message_of(descriptor_set: bytes, message: str) -> Descriptor:
    """A message of `protoc --include_imports -o FILE`; the first of the last file by default."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = FileDescriptorSet.FromString(descriptor_set).file
    except DecodeError as error:
        raise InvalidSchemaError(f"it is no descriptor set of protoc: {error}") from None
    described = _described(files)
    every = {found.full_name: found for file in described for found in _messages(file)}
    wanted = message or next(
        (found.full_name for file in reversed(described) for found in _messages(file)), ""
    )
    if wanted not in every:
        raise InvalidSchemaError(f"it has no message {wanted!r}: it has {', '.join(sorted(every))}")
    return every[wanted]


def _described(files: Iterable[FileDescriptorProto]) -> list[FileDescriptor]:
    """The files in a pool of their own, with what they import of the runtime of Protobuf.

    A file comes after its imports.  Raises InvalidSchemaError.
    """
    from google.protobuf.descriptor_pool import DescriptorPool

    pool, given = DescriptorPool(), {each.name: each for each in files}
    added: set[str] = set()

    def add(file: FileDescriptorProto) -> None:
        for name in file.dependency:
            own = None if name in given or name in added else runtime_descriptor(name)
            if own is not None:
                add(own)
        added.add(file.name)
        pool.AddSerializedFile(file.SerializeToString())

    try:
        for each in given.values():
            add(each)
        return [pool.FindFileByName(name) for name in given]
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidSchemaError(f"the Protobuf schema is invalid: {error}") from None


def _messages(file_or_message: object) -> list[Descriptor]:
    """All messages of a file, the outer ones first."""
    found: list[Descriptor] = []
    waiting = list(getattr(file_or_message, "message_types_by_name", {}).values())
    while waiting:
        message = waiting.pop(0)
        found.append(message)
        waiting += message.nested_types
    return found
