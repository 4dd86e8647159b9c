"""A schema of Protobuf, with the files that it imports."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kwire.registry.schemas.kinds import (
    READER_AND_WRITER,
    Incompatibility,
    InvalidSchemaError,
    SchemaKind,
    Sides,
    reading_reference,
)
from kwire.registry.schemas.pairs import TOO_COMPLEX, TooComplexError
from kwire.registry.schemas.protobuf.comparing import ProtoComparison, incompatibility
from kwire.registry.schemas.protobuf.descriptors import descriptor_of
from kwire.registry.schemas.protobuf.elements import ProtoFile
from kwire.registry.schemas.protobuf.from_descriptors import elements_of
from kwire.registry.schemas.protobuf.naming import Types
from kwire.registry.schemas.protobuf.printing import normal_text_of, text_of
from kwire.registry.schemas.protobuf.reading import file_of
from kwire.registry.schemas.protobuf.well_known import runtime_descriptor, well_known

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

OWN_NAME: Final = "default"
"""The name of the file of a schema, which nothing imports; Confluent's registry has the same."""
IMPORTS_IN_A_ROW_MAX: Final = 200
"""Files of which each imports the next one.  Python allows a thousand calls inside each other."""


class ProtobufSchema:
    """A parsed schema.  Threads may share it."""

    kind: Final = SchemaKind.PROTOBUF

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        """Raises InvalidSchemaError.  `text` is the text of a file, or its descriptor in base64."""
        self.file: Final = any_file_of(text)
        """What the text says."""
        imported = _Imports(references).of(self.file)
        self.types: Final = Types(self.file, imported)
        """All types that the schema can name."""
        self.canonical: Final = text_of(self.file)
        self._name = OWN_NAME
        while self._name in dict(imported):
            self._name += "_"
        self.descriptors: Final[list[FileDescriptorProto]] = self._described(imported)
        """The descriptors of all files; each comes after those that it imports, its own is last."""
        self.file_descriptor: Final[FileDescriptor] = self._built()
        """The schema as the runtime of Protobuf takes it, in a pool of its own."""

    def _described(self, imported: list[tuple[str, ProtoFile]]) -> list[FileDescriptorProto]:
        found = []
        for name, file in imported:
            known = runtime_descriptor(name)
            found.append(known if known is not None else descriptor_of(file, name, self.types))
        return [*found, descriptor_of(self.file, self._name, self.types)]

    def _built(self) -> FileDescriptor:
        from google.protobuf.descriptor_pool import DescriptorPool

        pool = DescriptorPool()
        try:
            for each in self.descriptors:
                pool.AddSerializedFile(each.SerializeToString())
            found = pool.FindFileByName(self._name)
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidSchemaError(f"the Protobuf schema is invalid: {error}") from None
        return found

    def normalized(self) -> str:
        """The text with full names of types, and with fields in the order of their numbers."""
        return normal_text_of(self.file, self.types)

    def formatted(self, name: str) -> str:
        """The text; the descriptor in base64 if `name` is `serialized`."""
        return self.serialized() if name == "serialized" else self.canonical

    def serialized(self) -> str:
        """The descriptor of the schema in base64."""
        return base64.b64encode(self.descriptors[-1].SerializeToString()).decode("ascii")

    def message(self, indexes: list[int]) -> Descriptor:
        """The message that a list of indexes names: one for each level of nesting.

        Raises InvalidSchemaError if there is none.
        """
        names = [self.file.package] if self.file.package else []
        level = self.file.messages
        for index in indexes:
            if not 0 <= index < len(level):
                raise InvalidSchemaError(f"the Protobuf schema has no message {indexes}")
            names.append(level[index].name)
            level = level[index].messages
        pool = self.file_descriptor.pool
        return pool.FindMessageTypeByName(".".join(names))

    def incompatibilities(
        self, writer: ProtobufSchema, sides: Sides = READER_AND_WRITER
    ) -> list[Incompatibility]:
        """Why this schema cannot read what `writer` wrote; empty if it can."""
        try:
            found = ProtoComparison(self.types, writer.types).files(self.file, writer.file)
        except TooComplexError:
            return [TOO_COMPLEX]
        return [incompatibility(each, sides) for each in dict.fromkeys(found)]


class _Imports:
    """Finds the files that a file imports."""

    def __init__(self, references: Mapping[str, str]) -> None:
        self._references = references
        self._found: dict[str, ProtoFile] = {}
        self._open: list[str] = []

    def of(self, file: ProtoFile) -> list[tuple[str, ProtoFile]]:
        """All imported files by name; each comes after those that it imports itself."""
        for name in (*file.imports, *file.public_imports):
            if name in self._open:
                cycle = " imports ".join((*self._open[self._open.index(name) :], name))
                raise InvalidSchemaError(f"files import each other: {cycle}")
            if name not in self._found:
                if len(self._open) == IMPORTS_IN_A_ROW_MAX:
                    raise InvalidSchemaError(
                        f"more than {IMPORTS_IN_A_ROW_MAX} files import one another in a row"
                    )
                self._open.append(name)
                imported = self._file(name)
                self.of(imported)
                self._found[self._open.pop()] = imported
        return list(self._found.items())

    def _file(self, name: str) -> ProtoFile:
        if name in self._references:
            with reading_reference(name):
                return any_file_of(self._references[name])
        known = well_known(name)
        if known is None:
            raise InvalidSchemaError(f'the schema imports "{name[:200]}", which no reference has')
        return known


def any_file_of(text: str) -> ProtoFile:
    """The file of a text, or of a descriptor in base64.  Raises InvalidSchemaError."""
    try:
        serialized = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return file_of(text)
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return elements_of(FileDescriptorProto.FromString(serialized))
    except DecodeError as error:
        raise InvalidSchemaError(f"the descriptor is invalid: {error}") from None
